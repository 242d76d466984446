package rules

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

const pathRules = `
rules:
  - {name: login, match: {path: /Login/}, key: [path], limits: [10/1m], overrides: [
      {match: {when: path == "/login"}, limits: [1/1m]}]}
  - {name: literal, match: {path: /Login}, path_matching: exact, key: [path], limits: [10/1m]}
  - {name: any-case, match: {path: /Login}, path_matching: express, key: [path], limits: [10/1m]}
  - {name: slash, match: {path: /Login}, path_matching: rails, key: [path], limits: [10/1m]}
  - {name: tree, match: {path: "/Files;v=1/{Owner}/{Rest...}"}, key: [Owner, Rest], limits: [10/1m], overrides: [
      {match: {path: "/FILES/{who}"}, limits: [1/1m]},
      {match: {path: "/files/7/A/"}, limits: [2/1m]}]}
  - {name: values, match: {attributes: {path: ["/Img/*", "/CSS/a%62c/"]}}, key: [], limits: [10/1m]}
lists:
  deny: [{path: /Private/Key}]
`

// A rule matches and counts by the path without the differences that servers ignore, and so do its overrides and
// expressions. The wildcards of a key keep their case.
func TestPathMatching(t *testing.T) {
	s := compiled(t, pathRules)
	var m Match
	for path, want := range map[string]string{
		"/login":                 "login[0](/login) any-case(/login)",
		"/Login":                 "login[0](/login) literal(/Login) any-case(/login) slash(/Login)",
		"/LOGIN":                 "login[0](/login) any-case(/login)",
		"/LOGIN/":                "login[0](/login) any-case(/login)",
		"/Login/":                "login[0](/login) any-case(/login) slash(/Login)",
		"//%4cogin":              "login[0](/login) literal(/Login) any-case(/login) slash(/Login)",
		"/login;x=1":             "login[0](/login)",
		"/x/..;/%6cogin/;y":      "login[0](/login)",
		"/login/x":               "",
		"/loginx":                "",
		"/files/7":               "tree[0](7,)",
		"/files/7/":              "tree[0](7,)",
		"/FILES;v=2/7;w/":        "tree[0](7,)",
		"/files/7/A;v=1/":        "tree[1](7,A)",
		"/files/7/a":             "tree[1](7,a)",
		"/files/Bob/A/b/":        "tree(Bob,A/b)",
		"/files/BOB;x/A/b":       "tree(BOB,A/b)",
		"/files":                 "",
		"/files/":                "",
		"/img":                   "values()",
		"/IMG/":                  "values()",
		"/img/a/B":               "values()",
		"/imgs":                  "",
		"/css/abc":               "values()",
		"/css/ab":                "",
		"/private/%6BEY;admin=1": "denied",
		"/private/key/":          "denied",
		"/private/keys":          "",
	} {
		call := callOf("", "path", path)
		s.Match(call, 1, &m)
		if got := told(&m); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		checkExplainedAt(t, s, call, 1, &m)
	}
}

// What loosens limits matches exactly, whatever path_matching says: a client must not get more by spelling a path in
// another way. Only limits that are no looser match as the rule does.
func TestWhatLoosensMatchesExactly(t *testing.T) {
	for _, document := range []string{"", "path_matching: loose\n", "path_matching: express\n"} {
		s := compiled(t, document+`
rules:
  - {name: api, match: {path: "/api/{id}/{rest...}"}, key: [ip], limits: [10/1m], overrides: [
      {match: {path: "/api/{x}/Health"}, limits: unlimited},
      {match: {path: "/api/{x}/export"}, limits: [5/1m]},
      {match: {path: "/api/{x}/import"}, limits: [20/1m]},
      {match: {path: "/api/{x}/other"}, limits: [{rate: 1000/1h, burst: 1000, algorithm: token_bucket}]},
      {match: {attributes: {path: "/api/*/Public"}}, limits: unlimited},
      {match: {when: 'path == "/api/7/Free"'}, limits: unlimited},
      {match: {when: 'id == "Gold" && rest == "a/"'}, limits: unlimited},
      {match: {when: 'id == "bronze"'}, limits: [1/1m]}]}
lists:
  allow: [{path: /Status}, {path: "/open/*"}]
`)
		var m Match
		for path, want := range map[string]string{
			"/api/7/x": "api(i)", "/API/7/x/": "api(i)",
			"/api/7/Health": "api[0](i)", "/api/7/%48ealth": "api[0](i)", "/api//7/./Health": "api[0](i)", "/api/7/health": "api(i)", "/API/7/Health": "api(i)", "/api/7/Health/": "api(i)",
			"/api/7/export": "api[1](i)", "/api/7/EXPORT": "api[1](i)", "/api/7/export/": "api[1](i)",
			"/api/7/import": "api[2](i)", "/api/7/IMPORT": "api(i)", "/api/7/import/": "api(i)",
			"/api/7/other": "api[3](i)", "/api/7/Other": "api(i)",
			"/api/7/Public": "api[4](i)", "/api/7/public": "api(i)", "/api/7/Public/": "api(i)",
			"/api/7/Free": "api[5](i)", "/api/7/free": "api(i)", "/api/7/Free/": "api(i)",
			"/api/Gold/a/": "api[6](i)", "/api/Gold/a": "api(i)", "/api/gold/a/": "api(i)",
			"/api/BRONZE/a": "api[7](i)",
			"/Status":       "allowed", "/status": "", "/Status/": "", "/Status;x": "", "//Status": "allowed",
			"/open/x": "allowed", "/open": "", "/OPEN/x": "",
		} {
			call := callOf("", "path", path, "ip", "i")
			s.Match(call, 1, &m)
			if got := told(&m); got != want {
				t.Errorf("%q, %s: %s, want %s", document, path, got, want)
			}
			checkExplainedAt(t, s, call, 1, &m)
		}
	}
}

// A path whose segments move when parameters are removed does not choose the value of a wildcard:
// /x/vip/..;/..;/api/7 is /api/7 to a servlet container.
func TestWildcardsOfOverridesAreThoseOfTheRule(t *testing.T) {
	s := compiled(t, `
rules:
  - {name: api, match: {path: "/api/{id}"}, key: [id], limits: [10/1m], overrides: [{match: {when: 'id == "vip"'}, limits: unlimited}]}
`)
	var m Match
	for path, want := range map[string]string{"/api/vip": "api[0](vip)", "/x/vip/..;/..;/api/7": "api(7)", "/api/7;vip": "api(7)", "/api/VIP": "api(VIP)"} {
		s.Match(callOf("", "path", path), 1, &m)
		if got := told(&m); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// Rules that ignore differences between paths are matched without allocating, too.
func TestPathMatchingAllocatesNothing(t *testing.T) {
	s := compiled(t, pathRules)
	call, m := callOf("", "path", "/files/7/a"), new(Match)
	s.Match(call, 1, m)
	if n := testing.AllocsPerRun(100, func() { s.Match(call, 1, m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A key by path that an attribute names is found where its requests are counted.
func TestKeyedByPath(t *testing.T) {
	s := compiled(t, pathRules)
	var keys []string
	for _, c := range s.Keyed(callOf("", "path", "/LOGIN/;x"), 1, nil) {
		for _, a := range c.Key {
			keys = append(keys, c.Rule.Name+" "+a.Value)
		}
	}
	if want := []string{"login /login", "literal /LOGIN/;x", "any-case /login/;x", "slash /LOGIN/;x"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	pathRow   = regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\| (.*) \\|$")
)

// The rules that docs/explanation/path-matching.md shows compile, and match the paths in its table as it says.
func TestPathMatchingPage(t *testing.T) {
	page, err := os.ReadFile("../docs/explanation/path-matching.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(page), -1)
	for _, block := range blocks {
		compiled(t, block[1])
	}
	rows := pathRow.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 2 || len(rows) < 10 {
		t.Fatalf("%d documents and %d rows of the table", len(blocks), len(rows))
	}
	var columns []*Snapshot
	for _, name := range []string{"loose", "express", "rails", "spring", "exact"} {
		columns = append(columns, compiled(t, "rules: [{name: login, match: {path: /login}, path_matching: "+name+", key: [], limits: [5/1m]}]"))
	}
	for _, row := range rows {
		cells := strings.Split(row[2], " | ")
		if len(cells) != len(columns) {
			t.Fatalf("%s has %d cells", row[0], len(cells))
		}
		for i, s := range columns {
			var m Match
			s.Match(&penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: row[1]}}}, 1, &m)
			if got := map[bool]string{true: "yes", false: "no"}[len(m.Rules) > 0]; got != cells[i] {
				t.Errorf("%s, column %d: %s, the page says %s", row[1], i, got, cells[i])
			}
		}
	}
}

// If several files are one set of rules, one of them sets what is ignored, for all.
func TestPathMatchingOfFiles(t *testing.T) {
	rule := File{"b.yaml", []byte("rules: [{name: login, match: {path: /login}, key: [], limits: [1/1m]}]")}
	s, _, err := CompileFiles([]File{{"a.yaml", []byte("path_matching: express")}, rule}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var m Match
	if s.Match(callOf("", "path", "/LOGIN"), 1, &m); told(&m) != "login()" {
		t.Error(told(&m))
	}
	_, _, err = CompileFiles([]File{{"a.yaml", []byte("path_matching: express")}, {"c.yaml", []byte("path_matching: exact")}, rule}, Options{})
	if err == nil || !strings.Contains(err.Error(), "path_matching is given twice, the first is at a.yaml:1:") {
		t.Error(err)
	}
}

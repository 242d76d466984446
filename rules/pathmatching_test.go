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
path_matching: {ignore_case: true, ignore_trailing_slash: true, ignore_matrix_parameters: true}
rules:
  - {name: login, match: {path: /Login/}, key: [path], limits: [10/1m], overrides: [
      {match: {when: path == "/login"}, limits: [1/1m]}]}
  - {name: literal, match: {path: /Login}, path_matching: {ignore_case: false, ignore_trailing_slash: false, ignore_matrix_parameters: false}, key: [path], limits: [10/1m]}
  - {name: any-case, match: {path: /Login}, path_matching: {ignore_trailing_slash: false, ignore_matrix_parameters: false}, key: [path], limits: [10/1m]}
  - {name: tree, match: {path: "/Files;v=1/{Owner}/{Rest...}"}, key: [Owner, Rest], limits: [10/1m], overrides: [
      {match: {path: "/FILES/{who}"}, limits: [1/1m]},
      {match: {path: "/files/7/A/"}, limits: [2/1m]}]}
  - {name: values, match: {attributes: {path: ["/Img/*", "/CSS/a%62c/"]}}, key: [], limits: [10/1m]}
lists:
  deny: [{path: /Private/Key}]
`

// A rule matches and counts by the path without the differences that it ignores, and so do its overrides and
// expressions.
func TestPathMatching(t *testing.T) {
	s := compiled(t, pathRules)
	var m Match
	for path, want := range map[string]string{
		"/login":                 "login[0](/login) any-case(/login)",
		"/Login":                 "login[0](/login) literal(/Login) any-case(/login)",
		"/LOGIN":                 "login[0](/login) any-case(/login)",
		"/LOGIN/":                "login[0](/login)",
		"/login;x=1":             "login[0](/login)",
		"/x/..;/%6cogin/;y":      "login[0](/login)",
		"/login/x":               "",
		"/loginx":                "",
		"/files/7":               "tree[0](7,)",
		"/files/7/":              "tree[0](7,)",
		"/FILES;v=2/7;w/":        "tree[0](7,)",
		"/files/7/A;v=1/":        "tree[1](7,a)",
		"/files/Bob/A/b/":        "tree(bob,a/b)",
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
	if want := []string{"login /login", "literal /LOGIN/;x", "any-case /login/;x"}; !slices.Equal(keys, want) {
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
	if len(blocks) < 3 || len(rows) < 10 {
		t.Fatalf("%d documents and %d rows of the table", len(blocks), len(rows))
	}
	option := func(terms string) *Snapshot {
		return compiled(t, "rules: [{name: login, match: {path: /login}, path_matching: {"+terms+"}, key: [], limits: [5/1m]}]")
	}
	columns := []*Snapshot{option(""), option("ignore_case: true"), option("ignore_trailing_slash: true"), option("ignore_matrix_parameters: true")}
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
	s, _, err := CompileFiles([]File{{"a.yaml", []byte("path_matching: {ignore_case: true}")}, rule}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var m Match
	if s.Match(callOf("", "path", "/LOGIN"), 1, &m); told(&m) != "login()" {
		t.Error(told(&m))
	}
	_, _, err = CompileFiles([]File{{"a.yaml", []byte("path_matching: {ignore_case: true}")}, {"c.yaml", []byte("path_matching: {ignore_case: false}")}, rule}, Options{})
	if err == nil || !strings.Contains(err.Error(), "ignore_case is given twice, the first is at a.yaml:1:") {
		t.Error(err)
	}
}

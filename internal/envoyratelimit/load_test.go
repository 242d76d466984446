package envoyratelimit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

func file1(text string) []rules.File {
	return []rules.File{{Name: "f.yaml", Data: []byte(text)}}
}

// placed returns problems as position and message.
func placed(problems rules.Problems) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = fmt.Sprintf("%v: %s", p.Position, p.Message)
	}
	return strings.Join(lines, "\n")
}

var badFiles = []struct{ name, text, want string }{
	{"empty", "", "f.yaml:1:1: config file cannot have empty domain"},
	{"empty domain", "domain: ''", "f.yaml:1:9: config file cannot have empty domain"},
	{"a list", "- a", "f.yaml:1:1: error loading config file: it must be a mapping, not a list"},
	{"empty key", "domain: d\ndescriptors:\n  - value: v", "f.yaml:3:5: descriptor has empty key"},
	{"duplicate", "domain: d\ndescriptors:\n  - {key: k, value: v}\n  - {key: k}\n  - {key: k, value: v}", "f.yaml:5:5: duplicate descriptor composite key 'd.k_v'"},
	{"duplicate below", "domain: d\ndescriptors:\n  - key: k\n    descriptors:\n      - key: b\n      - key: b", "f.yaml:6:9: duplicate descriptor composite key 'd.k.b'"},
	{"unit", "domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: foo\n      requests_per_unit: 5", "f.yaml:5:13: invalid rate limit unit 'foo'; one of second, minute, hour, day, week, month, year"},
	{"no unit", "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {requests_per_unit: 5}", "f.yaml:4:17: invalid rate limit unit ''; one of second, minute, hour, day, week, month, year"},
	{"unlimited with unit", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unlimited: true, unit: day}}", "f.yaml:3:50: should not specify rate limit unit when unlimited"},
	{"replaces itself", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {replaces: [{name: me}], name: me, unit: day}}", "f.yaml:3:38: replaces should not contain name of same descriptor"},
	{"replaces nothing", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {replaces: [{name: ''}], unit: day}}", "f.yaml:3:38: should not have an empty replaces entry"},
	{"unknown key", "domain: d\ndescriptors:\n  - key: k\n    ratelimit: {unit: day}", "f.yaml:4:5: config error, unknown key 'ratelimit'"},
	{"key that is no string", "domain: d\n0.25: x", "f.yaml:2:1: config error, key is not of type string: 0.25"},
	{"list of other than maps", "domain: d\ndescriptors:\n  - a\n  - [b]", "f.yaml:3:5: config error, yaml file contains list of type other than map: a\nf.yaml:4:5: config error, yaml file contains list of type other than map: a list"},
	{"share without wildcard", "domain: d\ndescriptors:\n  - {key: k, value: v, share_threshold: true}", `f.yaml:3:41: share_threshold can only be used with wildcard values, which have a *; the value is "v"`},
	{"negative", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: -1}}", `f.yaml:3:57: error loading config file: requests_per_unit must be a number from 0 to 4294967295, not "-1"`},
	{"too much", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 4294967296}}", `f.yaml:3:57: error loading config file: requests_per_unit must be a number from 0 to 4294967295, not "4294967296"`},
	{"no bool", "domain: d\ndescriptors:\n  - {key: k, shadow_mode: 'true'}", `f.yaml:3:27: error loading config file: shadow_mode must be true or false, not "true"`},
	{"twice", "domain: d\ndomain: e", "f.yaml:2:1: error loading config file: domain is given twice"},
	{"shapes", "domain: [d]\ndescriptors: {}", "f.yaml:1:9: error loading config file: domain must be a single value, not a list\nf.yaml:1:9: config file cannot have empty domain\nf.yaml:2:14: error loading config file: descriptors must be a list, not a mapping"},
	{"rate_limit", "domain: d\ndescriptors: [{key: k, rate_limit: 5, metadata: 5}]", "f.yaml:2:36: error loading config file: rate_limit must be a mapping, not a single value\nf.yaml:2:49: error loading config file: metadata must be a mapping, not a single value"},
	{"no multiplier", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, unit_multiplier: 0}}", "f.yaml:3:26: unit_multiplier 0 is not from 1 to 366, beside the unit day"},
	{"too long", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: YEAR, unit_multiplier: 2}}", "f.yaml:3:26: unit_multiplier 2 is not from 1 to 1, beside the unit YEAR"},
	{"algorithm", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1, algorithm: tokens}}", `f.yaml:3:71: unknown algorithm "tokens"; one of fixed_window, sliding_window_log, sliding_window_counter, token_bucket, leaky_bucket, concurrency`},
	{"no tokens", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 0, algorithm: token_bucket}}", `f.yaml:3:26: invalid limit "token_bucket 0/1d": count 0: must be from 1 to 1000000000000 for token_bucket`},
	{"burst of a window", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1, burst: 3}}", `f.yaml:3:26: invalid limit "fixed_window 1/1d burst 3": burst 3: is only for token_bucket, not fixed_window`},
	{"two documents", "domain: d\n---\ndomain: e", "f.yaml:2:1: error loading config file: a second document begins here, write everything in one"},
	{"no anchor", "domain: d\ndescriptors: *gone", "f.yaml:2:14: error loading config file: the anchor gone is not there"},
	{"not UTF-8", "domain: \xff", "f.yaml:1:9: error loading config file: the text is not UTF-8"},
	{"all at once", "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: x}}\n  - {rate_limit: {unit: y}}\n  - {key: k, foo: 1}",
		"f.yaml:3:33: invalid rate limit unit 'x'; one of second, minute, hour, day, week, month, year\nf.yaml:4:5: descriptor has empty key\nf.yaml:5:5: duplicate descriptor composite key 'd.k'\nf.yaml:5:14: config error, unknown key 'foo'"},
}

func TestMistakes(t *testing.T) {
	for _, c := range badFiles {
		_, _, err := Load(file1(c.text), Options{})
		problems, ok := errors.AsType[rules.Problems](err)
		if got := placed(problems); !ok || got != c.want || !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
	if _, _, err := Load(file1("domain: [d"), Options{}); err == nil || !strings.HasPrefix(err.Error(), "f.yaml:1:") {
		t.Errorf("no YAML: %v", err)
	}
}

func TestDomainsOfSeveralFiles(t *testing.T) {
	files := []rules.File{
		{Name: "a.yaml", Data: []byte("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day}}]")},
		{Name: "b.yaml", Data: []byte("domain: d\ndescriptors: [{key: b, rate_limit: {unit: day}}]")},
		{Name: "c.yaml", Data: []byte("domain: e\ndescriptors: [{key: b, rate_limit: {unit: day}}]")},
	}
	_, _, err := Load(files, Options{})
	if problems, _ := errors.AsType[rules.Problems](err); placed(problems) != "b.yaml:1:9: duplicate domain 'd' in config file" {
		t.Errorf("not merged: %v", err)
	}
	c, _, err := Load(files, Options{MergeDomains: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if c.find("d", entries(key, "1")) == nil {
			t.Errorf("%s is missing in the merged domain", key)
		}
	}
	again := append(files, rules.File{Name: "z.yaml", Data: files[0].Data})
	_, _, err = Load(again, Options{MergeDomains: true})
	if problems, _ := errors.AsType[rules.Problems](err); placed(problems) != "z.yaml:2:15: duplicate descriptor composite key 'd.a'" {
		t.Errorf("the same in two files: %v", err)
	}
}

// Windows editors begin a file with a byte order mark.
func TestByteOrderMark(t *testing.T) {
	c, warnings, err := Load(file1("\ufeffdomain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: +5}}]"), Options{})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if l := c.find("d", entries("a", "1")); l == nil || l.count != 5 {
		t.Errorf("%+v", l)
	}
}

// Unusual notation, and fields in the wrong place, are read as envoyproxy/ratelimit reads them.
func TestGoodFiles(t *testing.T) {
	c, warnings, err := Load(file1(`
domain: d
descriptors:
  - key: a
    value: 17
    rate_limit: &limit {unit: MiNuTe, requests_per_unit: 0x10, name: n}
    shadow_mode: Yes
    detailed_metric: true
    value_to_metric: false
  - {key: b, value: true, rate_limit: *limit}
  - key: c
    rate_limit:
      <<: *limit
      requests_per_unit: 1_000
      shadow_mode: true
  - {key: e, value:, rate_limit:, descriptors:}
`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := placed(warnings); got != "f.yaml:15:7: shadow_mode means nothing here: it belongs elsewhere" {
		t.Errorf("warnings: %s", got)
	}
	for _, want := range []struct {
		key, value string
		count      int64
		shadow     bool
	}{{"a", "17", 16, true}, {"b", "true", 16, false}, {"c", "x", 1000, false}} {
		l := c.find("d", entries(want.key, want.value))
		if l == nil || l.count != want.count || l.shadow != want.shadow || l.name != "n" || l.window.Minutes() != 1 {
			t.Errorf("%s=%s: got %+v, want %+v", want.key, want.value, l, want)
		}
	}
	if l := c.find("d", entries("e", "1")); l != nil {
		t.Errorf("nothing is said of e: %+v", l)
	}
}

// A short text of aliases can be a large tree.
func TestAliasesDoNotExplode(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\nmetadata: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "k%d: &a%d [%s*a%d]\n", i, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	_, _, err := Load(file1(b.String()), Options{})
	if err == nil || !strings.Contains(err.Error(), "more than 1000000 values") {
		t.Errorf("got %.300v", err)
	}
}

func TestDeepFiles(t *testing.T) {
	for name, text := range map[string]string{
		"brackets": "a: " + strings.Repeat("[", 20_000),
		"braces":   strings.Repeat("{a: ", 20_000),
		"dashes":   strings.Repeat("- ", 20_000),
		"indents": func() (s string) {
			for i := range 400 {
				s += strings.Repeat(" ", i) + "descriptors:\n"
			}
			return s
		}(),
	} {
		if _, _, err := Load(file1(text), Options{}); err == nil || !strings.Contains(err.Error(), "nested more than 64 deep") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func entries(pairs ...string) []penstock.Attribute {
	var out []penstock.Attribute
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, penstock.Attribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

func FuzzLoad(f *testing.F) {
	for _, c := range badFiles {
		f.Add(c.text)
	}
	f.Add("domain: d\ndescriptors: [{key: a, value: 'x*', rate_limit: {unit: day, requests_per_unit: 3}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Load(file1(text), Options{})
		if err != nil {
			return
		}
		doc, _ := c.Convert()
		if _, _, err := rules.Compile(doc, rules.Options{}); err != nil {
			t.Errorf("what was converted cannot be used: %v\n%s", err, doc.YAML())
		}
	})
}

func TestWarnsOfDescriptorsThatCannotBeReached(t *testing.T) {
	long := strings.Repeat("k", 126)
	for text, want := range map[string]string{
		"domain: " + strings.Repeat("d", 256):                                         "f.yaml:1:9: the domain has 256 bytes and can never be reached: requests with a domain of more than 255 are refused",
		"domain: d\ndescriptors:\n  - key: " + long:                                   "f.yaml:3:5: the key has 126 bytes and can never be reached: descriptors with a key of more than 125 are not counted",
		"domain: d\ndescriptors:\n  - {key: k, value: a*}\n  - {key: k, value: ab*c}": `f.yaml:4:5: this descriptor can never be reached: the value "a*" of the same key matches all of its values and is before it`,
		"domain: d\ndescriptors:\n  - {key: k}\n  - {key: k, value: '**'}":            "f.yaml:4:5: the descriptor of the same key without a value can never be reached: this one matches every value",
		"domain: d\ndescriptors:\n  - {key: k, value: '*'}\n  - {key: k}":             `f.yaml:4:5: this descriptor can never be reached: the value "*" of the same key matches all of its values and is before it`,
		"domain: d\ndescriptors:\n  - {key: k, value: ab*c}\n  - {key: k, value: a*}\n  - {key: k, value: abc}\n  - {key: k}\n  - {key: other, value: a*}": "",
	} {
		_, warnings, err := Load(file1(text), Options{})
		if got := placed(warnings); err != nil || got != want {
			t.Errorf("%.80q: %v\ngot  %s\nwant %s", text, err, got, want)
		}
	}
}

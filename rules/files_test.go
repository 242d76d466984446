package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func named(name, text string) File { return File{name, []byte(text)} }

const soundRules = "rules:\n  - name: one\n    key: [ip]\n    limits: [100/1m]\n"

func TestSeveralFilesAreOneSet(t *testing.T) {
	s, warnings, err := CompileFiles([]File{
		named("a.yaml", "attributes:\n  user: {header: X-User}\n"),
		named("b.json", `{"rules": [{"name": "two", "key": ["user"], "limits": ["5/s"]}], "lists": {"deny": [{"user": "mallory"}]}}`),
		named("c.yaml", soundRules+"lists:\n  deny: [{ip: 192.0.2.1}]\n  allow: [{ip: 10.0.0.0/8}]\n"),
	}, Options{Version: 3})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	var names []string
	for _, r := range s.Rules {
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"two", "one"}, names); diff != "" || s.Version != 3 {
		t.Errorf("version %d, rules %s", s.Version, diff)
	}
	if got := s.Sources[0].Header; got != "X-User" {
		t.Errorf("user comes from %q", got)
	}
}

func TestProblemsNameTheirFile(t *testing.T) {
	good := named("good.yaml", soundRules)
	for _, test := range []struct {
		name  string
		files []File
		want  []string // the beginning of each error
	}{
		{"reading and compiling, each in its file", []File{
			named("a.yaml", "# first\nrules:\n  - name: two\n    key: []\n    limits: [5/mn]\n"),
			good,
			named("b.yaml", "\n\nrules:\n  - name: Three\n    key: []\n    limits: [5/s]\n"),
		}, []string{"a.yaml:5:16: unknown unit mn", "b.yaml:4:11: \"Three\" cannot be the name"}},
		{"the same rule twice", []File{good, named("b.yaml", "# again\n"+soundRules)},
			[]string{"b.yaml:3:11: the name one is taken, by the rule at good.yaml:2:11"}},
		{"the same rule twice in one of them", []File{named("a.yaml", "rules: []\n"), named("b.yaml", soundRules+strings.TrimPrefix(soundRules, "rules:\n"))},
			[]string{"b.yaml:5:11: the name one is taken, by the rule at b.yaml:2:11"}},
		{"the same attribute twice", []File{
			named("a.yaml", "attributes:\n  user: {header: A}\nrules: []\n"),
			named("b.yaml", "attributes: {user: {header: B}}\n"),
		}, []string{"b.yaml:1:14: user is given twice, the first is at a.yaml:2:3"}},
		{"a field twice in one of them", []File{good, named("b.yaml", "rules:\n  - name: two\n    key: []\n    key: []\n    limits: [1/s]\n")},
			[]string{"b.yaml:4:5: key is given twice, the first is at 3:5"}},
		{"not YAML", []File{good, named("b.yaml", "rules: [\n")}, []string{"b.yaml:"}},
		{"one is empty, as while it is written", []File{good, named("b.yaml", "")}, []string{"b.yaml:1:1: the document is empty"}},
		{"no mapping", []File{good, named("b.yaml", "- 1\n")}, []string{"b.yaml:1:1: the document must be a mapping"}},
		{"rules are no list", []File{named("b.yaml", "rules: 3\n"), good}, []string{"b.yaml:1:8: rules must be a list"}},
		{"unknown field", []File{good, named("b.yaml", "rulez: []\n")}, []string{"b.yaml:1:1: unknown field rulez, did you mean rules?"}},
		{"none has rules", []File{named("a.yaml", "lists: {}\n"), named("b.yaml", "lists: {}\n")}, []string{"a.yaml:1:1: rules is missing"}},
		{"a place in the lines of a literal", []File{good, named("b.yaml", "rules:\n  - name: two\n    key: []\n    limits: [1/s]\n    match:\n      when: |\n        ip == 'x' &&\n        nobody == ''\n")},
			[]string{"b.yaml:8:9: when:"}},
		{"none at all", nil, []string{"there are no files"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _, err := CompileFiles(test.files, Options{})
			var problems Problems
			if !errors.As(err, &problems) || s != nil {
				t.Fatalf("compiled to %v, %v", s, err)
			}
			for i, p := range problems {
				if i >= len(test.want) || !strings.HasPrefix(p.String(), test.want[i]) {
					t.Errorf("problem %d: %v", i, p)
				}
			}
			if len(problems) < len(test.want) {
				t.Errorf("%d problems, want %q", len(problems), test.want)
			}
		})
	}
}

func TestWarningsNameTheirFile(t *testing.T) {
	_, warnings, err := CompileFiles([]File{named("a.yaml", soundRules), named("b.yaml", "rules:\n  - name: two\n    key: [nobody]\n    limits: [1/s]\n")}, Options{})
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0].String(), "b.yaml:3:11: warning: no attribute provides nobody") {
		t.Errorf("%v, %v", warnings, err)
	}
}

func TestFilesAreBoundedTogether(t *testing.T) {
	half := strings.Repeat("#", MaxDocument/2) + "\n"
	_, _, err := CompileFiles([]File{named("a.yaml", soundRules), named("b.yaml", half+"lists: {}\n"), named("c.yaml", half)}, Options{})
	if err == nil || !strings.Contains(err.Error(), "c.yaml: the files have more than") {
		t.Error(err)
	}
}

func TestValuesOfFilesAreBoundedTogether(t *testing.T) {
	files := []File{named("a.yaml", soundRules), named("b.yaml", "rules: [{name: two, key: [], limits: [1/s]}]\n")}
	for room, fits := range map[int]bool{15: true, 14: false} { // they have 8 and 7 values
		j := &joinedFiles{problemCollector: &problemCollector{ctx: t.Context(), source: &source{}}, nodes: maxNodesTogether - room}
		j.parse(files)
		if fits != (len(j.own) == 0) || !fits && !strings.HasPrefix(j.own.Error(), "b.yaml: the files have more than 20000000 values together") {
			t.Errorf("room for %d values: %v", room, j.own)
		}
	}
}

// What is too much only in all files together is an error. It must never be left out: the rules would then not apply.
func TestBoundsHoldForAllFilesTogether(t *testing.T) {
	const missing = "lists: {}\n" // has no rules, which is no error if another file has some
	for name, test := range map[string]struct {
		head, line string
		counts     []int // of the files
		want       string
	}{
		"attributes":           {"attributes:\n", "  a%d: {header: A}\n", []int{200, 57}, "0.yaml:2:3: attributes has 257 items, must be from 0 to 256"},
		"fields of a mapping":  {"attributes:\n", "  a%d: {header: A}\n", []int{256, 256, 256, 256}, "0.yaml:2:3: attributes has 1001 items, must be from 0 to 256"},
		"items of a deny list": {"lists:\n  deny:\n", "    - {user: u%d}\n", []int{60_000, 40_001}, "0.yaml:3:5: deny has 100001 items, must be from 0 to 100000"},
		"an allow list":        {"lists:\n  allow:\n", "    - {user: u%d}\n", []int{60_000, 40_001}, "0.yaml:3:5: allow has 100001 items, must be from 0 to 100000"},
	} {
		t.Run(name, func(t *testing.T) {
			var files []File
			lines := 0
			for i, count := range test.counts {
				var b strings.Builder
				b.WriteString(test.head)
				for range count {
					fmt.Fprintf(&b, test.line, lines)
					lines++
				}
				files = append(files, named(fmt.Sprintf("%d.yaml", i), b.String()))
			}
			files = append(files, named("empty.yaml", missing), named("sound.yaml", soundRules))
			s, _, err := CompileFiles(files, Options{})
			problems, ok := errors.AsType[Problems](err)
			if !ok || s != nil || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), test.want) {
				t.Errorf("compiled to %v, %v, want %s", s, err, test.want)
			}
		})
	}
}

// However a text is split into two files, nothing panics and every error is in one of them.
func FuzzFiles(f *testing.F) {
	f.Add(soundRules, soundRules)
	f.Add("attributes: {a: {header: A}}", "rules: []\nattributes: {a: {header: A}}")
	f.Add("rules: 3", `{"rules": [3, {}], "lists": {"allow": 1}}`)
	f.Add("lists: {allow: [{ip: 1}], deny: }", "lists: []")
	f.Fuzz(func(t *testing.T, a, b string) {
		_, warnings, err := CompileFiles([]File{named("a", a), named("b", b)}, Options{})
		var mistakes Problems
		errors.As(err, &mistakes)
		for _, p := range append(warnings, mistakes...) {
			if p.File != "a" && p.File != "b" {
				t.Errorf("a problem in neither file: %v", p)
			}
		}
	})
}

package penstock_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	ruledoc "github.com/penstock-io/penstock/rules"
)

const snippetsFile = "testdata/snippets.txt"

var (
	fence      = regexp.MustCompile("(?ms)^```([a-z]*)[^\n]*\n.*?^```$")
	accounted  = regexp.MustCompile(`^(\S+) (\w+): (?:(Test\w+(?:, Test\w+)*)|(\d+) not run: (.+))$`)
	testFunc   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	notSnippet = []string{"", "text", "mermaid"} // output, and pictures
)

// Every command and snippet of a page is run by a test, or listed with the reason why it is not. The list counts
// those that are not, so that a new one is noticed.
func TestSnippetsAreAccountedFor(t *testing.T) {
	found := map[string]int{}
	for _, page := range textFiles(t) {
		if filepath.Ext(page) != ".md" || strings.HasPrefix(page, "docs/adr/") {
			continue
		}
		for _, m := range fence.FindAllStringSubmatch(readText(t, page), -1) {
			if !slices.Contains(notSnippet, m[1]) {
				found[page+" "+m[1]]++
			}
		}
	}
	tests := testNames(t)
	for i, line := range readLines(t, snippetsFile) {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := accounted.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%s:%d: %q is not: page kind: Test, or page kind: count not run: reason", snippetsFile, i+1, line)
			continue
		}
		name := m[1] + " " + m[2]
		if found[name] == 0 {
			t.Errorf("%s:%d: %s has no %s", snippetsFile, i+1, m[1], m[2])
		}
		if m[4] != "" && fmt.Sprint(found[name]) != m[4] {
			t.Errorf("%s:%d: %s has %d blocks of %s, not %s: can the new ones run?", snippetsFile, i+1, m[1], found[name], m[2], m[4])
		}
		for _, test := range strings.Split(m[3], ", ") {
			if test != "" && !tests[test] {
				t.Errorf("%s:%d: there is no test %s", snippetsFile, i+1, test)
			}
		}
		delete(found, name)
	}
	for name, count := range found {
		t.Errorf("%s: %d blocks: say in %s which test runs them", name, count, snippetsFile)
	}
}

func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range trackedFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(readText(t, file), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	rulesText = regexp.MustCompile(`(?m)^rules:\n  - (?:name|\{name)|^  - name: \S+\n    (?:match|key|limits)`)
)

// The rules that pages show compile.
func TestRulesOnPages(t *testing.T) {
	checked := 0
	for _, page := range textFiles(t) {
		if filepath.Ext(page) != ".md" || strings.HasPrefix(page, "docs/adr/") {
			continue
		}
		for _, m := range yamlBlock.FindAllStringSubmatch(readText(t, page), -1) {
			text := m[1]
			if !rulesText.MatchString(text) {
				continue
			}
			if strings.HasPrefix(text, "  - ") {
				text = "rules:\n" + text
			}
			checked++
			doc, err := ruledoc.Parse(page, []byte(text))
			if err == nil {
				_, _, err = ruledoc.Compile(doc, ruledoc.Options{Provided: []string{"size"}})
			}
			if err != nil {
				t.Errorf("%s: %v in\n%s", page, err, text)
			}
		}
	}
	if checked < 10 {
		t.Errorf("the pages show only %d sets of rules", checked)
	}
}

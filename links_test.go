package penstock_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	imageLink    = regexp.MustCompile(`(?:src|href)="([^"]+)"`)
	codeSpan     = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	heading      = regexp.MustCompile(`(?m)^#+ (.*)$`)
	docsFile     = regexp.MustCompile(`\bdocs/[\w./-]+\.(?:md|json|svg|png)\b`)
)

// Every relative link of a page leads to a file that exists, and to a heading in it.
func TestLinks(t *testing.T) {
	checked := 0
	for _, page := range textFiles(t) {
		if filepath.Ext(page) != ".md" {
			continue
		}
		text := codeSpan.ReplaceAllString(readText(t, page), "``")
		for _, link := range append(markdownLink.FindAllStringSubmatch(text, -1), imageLink.FindAllStringSubmatch(text, -1)...) {
			checked++
			if problem := deadLink(t, page, link[1]); problem != "" {
				t.Errorf("%s: the link to %s: %s", page, link[1], problem)
			}
		}
	}
	if checked < 100 {
		t.Errorf("the pages have only %d links", checked)
	}
	for _, dead := range []string{"no-such.md", "docs/ARCHITECTURE.md#no-such"} {
		if deadLink(t, "README.md", dead) == "" {
			t.Errorf("%s: nothing is wrong with it", dead)
		}
	}
}

// Pages that code, messages, scripts and settings name exist.
func TestNamedPages(t *testing.T) {
	for _, name := range trackedFiles(t) {
		switch filepath.Ext(name) {
		case ".go", ".ts", ".tsx", ".py", ".yaml", ".yml", ".md", ".txt", ".txtar", ".lua", ".conf", ".service", "":
			for _, page := range docsFile.FindAllString(readText(t, name), -1) {
				if _, err := os.Stat(page); err != nil && !strings.Contains(page, "no-such") {
					t.Errorf("%s names %s, which does not exist", name, page)
				}
			}
		}
	}
}

// deadLink says what is wrong with a link from a page, if something is. Links to other sites are not followed.
func deadLink(t *testing.T, page, link string) string {
	t.Helper()
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	target, anchor, _ := strings.Cut(link, "#")
	file := page
	if target != "" {
		file = path.Join(path.Dir(page), target)
	}
	if _, err := os.Stat(file); err != nil {
		return "there is no such file"
	}
	if anchor != "" && path.Ext(file) == ".md" && !anchors(readText(t, file))[anchor] {
		return "the page has no such heading"
	}
	return ""
}

// anchors are the headings of a page as GitHub writes them in links.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, ""), -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return found
}

func readText(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The index lists every page once.
func TestIndexOfPages(t *testing.T) {
	index := readText(t, "docs/README.md")
	pages, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		link := "(" + strings.TrimPrefix(filepath.ToSlash(page), "docs/") + ")"
		if n := strings.Count(index, link); n != 1 && !strings.HasPrefix(page, "docs/adr/") {
			t.Errorf("docs/README.md lists %s %d times", page, n)
		}
	}
}

package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pageLink = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	pageID   = regexp.MustCompile(`\bid="([^"]+)"`)
)

// Every link of the built site leads to a page and a heading of the site, or to another site. scripts/docs runs this
// test on what it has built.
func TestSiteLinks(t *testing.T) {
	root := os.Getenv("PENSTOCK_TEST_SITE")
	if root == "" {
		t.Skip("make docs builds the site and runs this test on it")
	}
	site := readSite(t, root)
	checked := 0
	for page, text := range site {
		for _, m := range pageLink.FindAllStringSubmatch(text, -1) {
			if problem := site.dead(root, page, m[1]); problem != "" {
				t.Errorf("%s: the link to %s: %s", page, m[1], problem)
			}
			checked++
		}
	}
	if checked < 1000 {
		t.Errorf("the site has only %d links", checked)
	}
	for _, page := range []string{"index.html", "reference/configuration.html"} {
		matches, _ := filepath.Glob(filepath.Join(root, "*", page))
		if len(matches) == 0 {
			t.Errorf("the site has no %s", page)
		}
	}
}

// A bad link of a site is found.
func TestDeadSiteLinks(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.html"), []byte(`<h2 id="there">`), 0o600); err != nil {
		t.Fatal(err)
	}
	site := readSite(t, root)
	for link, isDead := range map[string]bool{
		"/a.html": false, "a.html#there": false, "#there": false, "https://example.com/x": false, "mailto:x@example.com": false,
		"/b.html": true, "a.html#gone": true, "#gone": true,
	} {
		if problem := site.dead(root, "a.html", link); (problem != "") != isDead {
			t.Errorf("%s: %q", link, problem)
		}
	}
}

// A site is the text of its pages, by their paths.
type site map[string]string

func readSite(t *testing.T, root string) site {
	t.Helper()
	pages := site{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		pages[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// dead says what is wrong with a link of a page, if something is. Links to other sites are not followed.
func (s site) dead(root, page, link string) string {
	u, err := url.Parse(strings.ReplaceAll(link, "&amp;", "&"))
	if err != nil {
		return err.Error()
	}
	if u.Scheme != "" || u.Host != "" {
		return ""
	}
	target := page
	switch {
	case strings.HasPrefix(u.Path, "/"):
		target = strings.TrimPrefix(path.Clean(u.Path), "/")
	case u.Path != "":
		target = path.Join(path.Dir(page), u.Path)
	}
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(target)))
	if err != nil {
		return "there is no such file"
	}
	if info.IsDir() {
		target += "/index.html"
	}
	if u.Fragment == "" || !strings.HasSuffix(target, ".html") {
		return ""
	}
	for _, m := range pageID.FindAllStringSubmatch(s[target], -1) {
		if m[1] == u.Fragment {
			return ""
		}
	}
	return "the page has no such heading"
}

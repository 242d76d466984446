package pattern_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/naive"
	"github.com/penstock-io/penstock/rules/internal/pattern"
)

func TestPaths(t *testing.T) {
	for _, test := range []struct {
		pattern  string
		fits     []string
		fitsNone []string
	}{
		{"/", []string{"/"}, []string{"/a"}},
		{"/health", []string{"/health", "//health", "/x/../health", "/h%65alth"}, []string{"/health/", "/Health", "/", "/health/x"}},
		{"/users/", []string{"/users/"}, []string{"/users", "/users/a"}},
		{"/users/{id}", []string{"/users/7", "/users/a%2Fb"}, []string{"/users", "/users/", "/users/7/", "/users/7/x"}},
		{"/users/{id}/", []string{"/users/7/"}, []string{"/users/7", "/users//"}},
		{"/users/{id}/posts/{post}", []string{"/users/7/posts/8"}, []string{"/users/7/posts", "/users/7/post/8"}},
		{"/search/{rest...}", []string{"/search/", "/search/a", "/search/a/b/"}, []string{"/search", "/searching/a", "/"}},
		{"/{rest...}", []string{"/", "/a", "/a/b"}, nil},
		{"/{a}/x/{rest...}", []string{"/7/x/", "/7/x/y/z"}, []string{"/x/7/", "/7/x"}},
		{"/a%40b", []string{"/a@b", "/a%40b"}, nil},
		{"/a%2fb", []string{"/a%2Fb"}, []string{"/a/b"}},
		{"/%7Bid%7D", []string{"/{id}"}, []string{"/7"}},
		{"/q%3F", []string{"/q%3f"}, []string{"/q"}},
	} {
		p, err := pattern.ParsePath(test.pattern, 0)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		for _, path := range test.fits {
			if !p.Fits(urlform.Path(path)) {
				t.Errorf("%q does not fit %q", test.pattern, path)
			}
		}
		for _, path := range test.fitsNone {
			if p.Fits(urlform.Path(path)) {
				t.Errorf("%q fits %q", test.pattern, path)
			}
		}
	}
}

func TestBadPaths(t *testing.T) {
	for written, want := range map[string]string{
		"":                              "begin with a slash",
		"users":                         "begin with a slash",
		"/a?b":                          "before ? and #",
		"/a//b":                         `a segment ""`,
		"//":                            `a segment ""`,
		"/a/../b":                       `a segment ".."`,
		"/a/.":                          `a segment "."`,
		"/a/%2E%2e":                     `a segment "%2E%2e"`,
		"/a/*":                          "{name...} for all that follow",
		"/{id}.json":                    "literal as a whole",
		"/a{id}":                        "literal as a whole",
		"/{id":                          "literal as a whole",
		"/id}":                          "literal as a whole",
		"/{{id}}":                       "literal as a whole",
		"/{}":                           "must be named",
		"/{...}":                        "must be named",
		"/{$}":                          "must be named",
		"/{a b}":                        "must be named",
		"/{rest...}/a":                  "must be the last",
		"/{rest...}/":                   "must be the last",
		"/{a}/{a}":                      "occurs twice",
		"/" + strings.Repeat("a", 2048): "at most 2048",
		strings.Repeat("/a", 65):        "at most 64",
	} {
		if _, err := pattern.ParsePath(written, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v; want one that says %q", written, err, want)
		}
	}
}

// FuzzPath compares patterns with those of the standard library, which have the same meaning.
func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{{"/users/{id}", "/users/7"}, {"/search/{rest...}", "/search/"}, {"/a/{b}/", "/a/b/"}, {"/{x}/{y...}", "/a"}, {"/a%2Fb", "/a%2fb"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, written, path string) {
		p, err := pattern.ParsePath(written, 0)
		if err != nil {
			return
		}
		if shape := (pattern.Path{Text: p.Shape()}); shape.Shape() != p.Shape() {
			t.Errorf("the shape of %q is not its own shape: %q", written, p.Shape())
		}
		path = urlform.Path(path)
		got := p.Fits(path)
		if want := naive.PathFits(p.Text, path); got != want {
			t.Errorf("%q fits %q: %v, want %v", written, path, got, want)
		}
		if !plainPath(path) || !plainPath(strings.NewReplacer("{", "", "}", "", "...", "").Replace(p.Text)) || strings.Contains(p.Text, "-") {
			return
		}
		if want, ok := muxFits(p.Text, path); ok && got != want {
			t.Errorf("%q fits %q: %v, but for ServeMux: %v", written, path, got, want)
		}
	})
}

// plainPath reports whether a path means the same to both.
func plainPath(path string) bool {
	for i := range len(path) {
		if c := path[i]; c != '/' && !pattern.IsName(string(c)) || c == '-' || c == '_' {
			return false
		}
	}
	return true
}

func muxFits(written, path string) (fits, ok bool) {
	defer func() { _ = recover() }() // names that Go does not allow
	if strings.HasSuffix(written, "/") {
		written += "{$}" // there, a slash at the end means a subtree
	}
	mux := http.NewServeMux()
	mux.HandleFunc(written, func(http.ResponseWriter, *http.Request) { fits = true }) // a redirect does not get here
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://host"+path, nil))
	return fits, true
}

package rules

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNormalizePath(t *testing.T) {
	for path, want := range map[string]string{
		"/":              "/",
		"":               "/",
		"*":              "/*",
		"a":              "/a",
		"/a":             "/a",
		"/a/":            "/a/",
		"/a/b/c":         "/a/b/c",
		"/A/b":           "/A/b",
		"//":             "/",
		"//a///b//":      "/a/b/",
		"/a/./b":         "/a/b",
		"/a/../b":        "/b",
		"/a//../b":       "/b",
		"/a/b/..":        "/a/",
		"/a/.":           "/a/",
		"/a/./":          "/a/",
		"/..":            "/",
		"/../../a":       "/a",
		"..":             "/",
		"/a/%2e%2E/b":    "/b",
		"/a/%2e":         "/a/",
		"/...":           "/...",
		"/.well-known/x": "/.well-known/x",
		"/a/..b":         "/a/..b",
		"/%61%7Eb":       "/a~b",
		"/a%2fb":         "/a%2Fb",
		"/a%2Fb/..":      "/",
		"/a/%2F":         "/a/%2F",
		"/a%40b":         "/a@b",
		"/%C3%A9":        "/é",
		"/é":             "/é",
		"/a%20b":         "/a b",
		"/%2561":         "/%2561",
		"/%%36%31":       "/%2561",
		"/100%":          "/100%25",
		"/%zz":           "/%25zz",
		"/%4":            "/%254",
		"/{a}":           "/%7Ba%7D",
		"/%7ba%7d":       "/%7Ba%7D",
		"/%00":           "/%00",
		"/a%0a":          "/a%0A",
		"/a?b=/../c":     "/a",
		"/a#b":           "/a",
		"?a":             "/",
		"/a%3fb":         "/a%3Fb",
		"/a%23/b":        "/a%23/b",
	} {
		if got := normalizePath(path); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}

func TestNormalPathsAreNotCopied(t *testing.T) {
	path := "/v1/users/7/.config/"
	if n := testing.AllocsPerRun(100, func() { normalizePath(path) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/%2f", "%%34%31", "/a?b", "{x}", "/a/..%2f", "/%3f%23"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := normalizePath(path)
		if again := normalizePath(got); again != got {
			t.Errorf("%q becomes %q and then %q", path, got, again)
		}
		if !strings.HasPrefix(got, "/") || strings.Contains(got, "//") || strings.ContainsAny(got, "{}?#") {
			t.Errorf("%q becomes %q", path, got)
		}
		for segment := range strings.SplitSeq(got, "/") {
			if segment == "." || segment == ".." {
				t.Errorf("%q becomes %q", path, got)
			}
		}
	})
}

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
		p, err := parsePath(test.pattern)
		if err != nil {
			t.Errorf("%q: %v", test.pattern, err)
			continue
		}
		for _, path := range test.fits {
			if !p.fits(normalizePath(path)) {
				t.Errorf("%q does not fit %q", test.pattern, path)
			}
		}
		for _, path := range test.fitsNone {
			if p.fits(normalizePath(path)) {
				t.Errorf("%q fits %q", test.pattern, path)
			}
		}
	}
}

func TestBadPaths(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                                       "begin with a slash",
		"users":                                  "begin with a slash",
		"/a?b":                                   "before ? and #",
		"/a//b":                                  `a segment ""`,
		"//":                                     `a segment ""`,
		"/a/../b":                                `a segment ".."`,
		"/a/.":                                   `a segment "."`,
		"/a/%2E%2e":                              `a segment "%2E%2e"`,
		"/a/*":                                   "{name...} for all that follow",
		"/{id}.json":                             "literal as a whole",
		"/a{id}":                                 "literal as a whole",
		"/{id":                                   "literal as a whole",
		"/id}":                                   "literal as a whole",
		"/{{id}}":                                "literal as a whole",
		"/{}":                                    "must be named",
		"/{...}":                                 "must be named",
		"/{$}":                                   "must be named",
		"/{a b}":                                 "must be named",
		"/{rest...}/a":                           "must be the last",
		"/{rest...}/":                            "must be the last",
		"/{a}/{a}":                               "occurs twice",
		"/" + strings.Repeat("a", maxPathLength): "at most 2048",
		strings.Repeat("/a", 65):                 "at most 64",
	} {
		if _, err := parsePath(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v; want one that says %q", pattern, err, want)
		}
	}
}

// FuzzPath holds patterns against the standard library's, which read them alike.
func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{{"/users/{id}", "/users/7"}, {"/search/{rest...}", "/search/"}, {"/a/{b}/", "/a/b/"}, {"/{x}/{y...}", "/a"}, {"/a%2Fb", "/a%2fb"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := parsePath(pattern)
		if err != nil {
			return
		}
		if shape := (pathPattern{p.shape()}); shape.shape() != p.shape() {
			t.Errorf("the shape of %q is not its own shape: %q", pattern, p.shape())
		}
		path = normalizePath(path)
		got := p.fits(path)
		if want := naivePathFits(p.text, path); got != want {
			t.Errorf("%q fits %q: %v, want %v", pattern, path, got, want)
		}
		if !plainPath(path) || !plainPath(strings.NewReplacer("{", "", "}", "", "...", "").Replace(p.text)) || strings.Contains(p.text, "-") {
			return
		}
		if want, ok := muxFits(p.text, path); ok && got != want {
			t.Errorf("%q fits %q: %v, but for ServeMux: %v", pattern, path, got, want)
		}
	})
}

// plainPath tells paths that mean the same to everybody.
func plainPath(path string) bool {
	for i := range len(path) {
		if c := path[i]; !isLetter(c) && !isDigit(c) && c != '/' {
			return false
		}
	}
	return true
}

func muxFits(pattern, path string) (fits, ok bool) {
	defer func() { _ = recover() }() // names that Go does not allow
	if strings.HasSuffix(pattern, "/") {
		pattern += "{$}" // a slash at the end stands for a subtree there
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) { fits = true }) // a redirect does not get here
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://host"+path, nil))
	return fits, true
}

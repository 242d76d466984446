package urlform

import (
	"strings"
	"testing"
)

func TestPath(t *testing.T) {
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
		if got := Path(path); got != want {
			t.Errorf("%q becomes %q, want %q", path, got, want)
		}
	}
}

func TestNormalPathsAreNotCopied(t *testing.T) {
	path := "/v1/users/7/.config/"
	if n := testing.AllocsPerRun(100, func() { Path(path) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/%2f", "%%34%31", "/a?b", "{x}", "/a/..%2f", "/%3f%23"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := Path(path)
		if again := Path(got); again != got {
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

package httplimit

import (
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

func TestNormalizePath(t *testing.T) {
	for path, want := range map[string]string{
		"":                 "/",
		"/":                "/",
		"*":                "*",
		"/a/b":             "/a/b",
		"a":                "/a",
		"//a///b/":         "/a/b/",
		"/a/./b/../c":      "/a/c",
		"/../../a":         "/a",
		"/a/..":            "/",
		"/a/b/..":          "/a/",
		"/a/%2e%2E/b":      "/b",
		"/%61%7e%2D":       "/a~-",
		"/a%2fb":           "/a%2Fb",
		"/a%252fb":         "/a%252fb",
		"/a b\"<>^`{|}":    "/a%20b%22%3C%3E%5E%60%7B%7C%7D",
		"/a;v=1/b":         "/a;v=1/b",
		"/a%3bv":           "/a%3Bv",
		"/é":               "/%C3%A9",
		"/%c3%a9":          "/%C3%A9",
		"/.hidden/..x/...": "/.hidden/..x/...",
		"/%3f%23":          "/%3F%23",
		"/@:!$&'()*+,=":    "/@:!$&'()*+,=",
	} {
		if got, err := NormalizePath(path); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{
		"/a\x00", "/a%00", "/a\n", "/%0d%0A", "/\x7f", "/%7f", `/a\b`, "/a%5cb", "/%", "/%4", "/%zz", "/a?b", "/a#b", "/%u002f",
		"/\xff", "/%ff", "/%c0%af", "/%c0%ae%c0%ae/", "/a/..;/b", "/a/.;x", "/a/%2e%2e%3b/b", "/a/..;%2Fb", "/a/.%3bx%2fb/c",
	} {
		if got, err := NormalizePath(path); err == nil {
			t.Errorf("%q: got %q", path, got)
		}
	}
}

// matcherForm returns the form in which rules match a path: as the key of a rule by path.
func matcherForm(t testing.TB) func(path string) string {
	snapshot := compile(t, "rules: [{name: paths, key: [path], limits: [1/1s]}]")
	var m rules.Match
	return func(path string) string {
		snapshot.Match(&penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: path}}}, 1, &m)
		if len(m.Rules) != 1 {
			t.Fatalf("%q matches %d rules", path, len(m.Rules))
		}
		return m.Rules[0].Key[0]
	}
}

// checkPath checks that the normal form leads to the path that the rules have matched.
func checkPath(t *testing.T, matched func(string) string, path string) (refused bool) {
	normal, err := NormalizePath(path)
	if err != nil {
		return true
	}
	if again, err := NormalizePath(normal); err != nil || again != normal {
		t.Fatalf("%q: %q, then %q, %v", path, normal, again, err)
	}
	if matched(path) != matched(normal) {
		t.Fatalf("%q: rules match %q, and %q of what is forwarded, %q", path, matched(path), matched(normal), normal)
	}
	if normal == "*" {
		return false
	}
	// It goes over the wire as it is, and the server at the other end reads just that.
	u, err := url.ParseRequestURI(normal)
	if err != nil || u.EscapedPath() != normal || u.RawQuery != "" {
		t.Fatalf("%q: %q is read as %v, %v", path, normal, u, err)
	}
	for segment := range strings.SplitSeq(normal[1:], "/") {
		if decoded, err := url.PathUnescape(segment); err != nil || decoded == "." || decoded == ".." {
			t.Fatalf("%q: %q has the segment %q, %v", path, normal, segment, err)
		}
	}
	return false
}

func TestRulesMatchWhatIsForwarded(t *testing.T) {
	matched := matcherForm(t)
	random := rand.New(rand.NewPCG(5, 6))
	parts := []string{"/", "//", ".", "..", "a", "B", "%2e", "%2E%2e", "%2f", "%2F", "%25", "%252f", "%41", "%c3%a9", "é", " ", "{", "}", "%7b", ";", "..;x", "%3b", "~", "%7E", "*", "+", "%20", "%5c", "%00", "?", "%"}
	accepted := 0
	for range 10_000 {
		var b strings.Builder
		b.WriteByte('/')
		for range random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		if !checkPath(t, matched, b.String()) {
			accepted++
		}
	}
	if accepted < 3000 {
		t.Errorf("only %d paths were worth a look", accepted)
	}
}

// Read passes the same path to the rules as NormalizePath returns, also for a request that came over the
// wire.
func TestReadMatchesWhatIsForwarded(t *testing.T) {
	matched := matcherForm(t)
	r := newReader(t, ReaderOptions{})
	for _, target := range []string{"/a%2Fb/../c", "/a%2e%2e/", "/%41;x?y=/z", "//x//y", "/a%2525", "/a%20b"} {
		req := httptest.NewRequest("GET", "http://example.com"+target, nil)
		path := callOf(t, r, req)["path"]
		normal, err := NormalizePath(path)
		if err != nil || matched(path) != matched(normal) {
			t.Errorf("%s: %q and %q, %v", target, path, normal, err)
		}
	}
}

func FuzzNormalizePath(f *testing.F) {
	for _, seed := range []string{"/a/../b", "/%2e%2E/", "/a%2Fb", "//", "/é%c3%a9", "/..;/", "a", "*", `/\`, "/%7B{"} {
		f.Add(seed)
	}
	matched := matcherForm(f)
	f.Fuzz(func(t *testing.T, path string) { checkPath(t, matched, path) })
}

package pattern_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock/rules/internal/pattern"
)

func TestWildcards(t *testing.T) {
	for _, test := range []struct{ pattern, name, path, want string }{
		{"/{id}", "id", "/7", "7"},
		{"/users/{id}/posts/{rest...}", "id", "/users/7/posts/", "7"},
		{"/users/{id}/posts/{rest...}", "rest", "/users/7/posts/", ""},
		{"/users/{id}/posts/{rest...}", "rest", "/users/7/posts/a", "a"},
		{"/users/{id}/posts/{rest...}", "rest", "/users/7/posts/a/b/", "a/b/"},
		{"/{rest...}", "rest", "/", ""},
		{"/{rest...}", "rest", "/a/b", "a/b"},
		{"/{a}/{b}/{c}", "c", "/1/2/3", "3"},
		{"/{a}/x", "a", "/%2F/x", "%2F"}, // one segment, as it is normalised
	} {
		p, err := pattern.ParsePath(test.pattern, 0)
		if err != nil || !p.Fits(test.path) {
			t.Fatalf("%s does not fit %s: %v", test.path, test.pattern, err)
		}
		w, ok := p.Wildcard(test.name)
		if got := w.Of(test.path); !ok || got != test.want {
			t.Errorf("%s of %s in %s: %q, %v; want %q", test.name, test.pattern, test.path, got, ok, test.want)
		}
	}
	p := pattern.Path{Text: "/users/{id}/{rest...}"}
	for _, name := range []string{"", "users", "rest...", "{id}", "i"} {
		if _, ok := p.Wildcard(name); ok {
			t.Errorf("%q is found in %s", name, p.Text)
		}
	}
	if diff := cmp.Diff([]string{"id", "rest"}, p.Wildcards()); diff != "" {
		t.Error(diff)
	}
}

package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
	"github.com/penstock-io/penstock/rules/internal/naive"
)

const wildcardRules = `
path_matching: exact
rules:
  - {name: per-id, key: [id], limits: [10/1m], match: {path: "/users/{id}/{rest...}"}, overrides: [
      {match: {path: "/users/{who}/admin"}, limits: [1/1m]},
      {match: {when: id == "7" && rest.startsWith("posts/")}, limits: unlimited}]}
  - {name: per-post, key: [user, post, "rest?"], limits: [10/1m], match: {path: "/users/{someone}/posts/{post}/{rest...}", when: someone != "8"}}
  - {name: no-path, key: [id], limits: [10/1m]}
  - {name: other-name, key: [number], limits: [10/1m], match: {path: "/users/{number}/{id}"}}
`

// A wildcard is known only to its own rule, and takes precedence over a client's attribute of the same name.
func TestWildcardsAsKeys(t *testing.T) {
	s := compiled(t, wildcardRules)
	var m Match
	for _, test := range []struct {
		call *penstock.Call
		want string
	}{
		{callOf("", "path", "/users/7/"), "per-id(7)"},
		{callOf("", "path", "/users//7"), ""}, // normalised, and nothing follows the id
		{callOf("", "path", "//users/%37/x"), "per-id(7) other-name(7)"},
		{callOf("", "path", "/users/9/admin"), "per-id[0](9) other-name(9)"},
		{callOf("", "path", "/users/9/admin", "id", "1"), "per-id[0](9) no-path(1) other-name(9)"},
		{callOf("", "path", "/users/7/posts/"), "per-id[1](7)"},
		{callOf("", "path", "/users/7/posts/1/a/b", "user", "u"), "per-id[1](7) per-post(u,1,a/b)"},
		{callOf("", "path", "/users/7/posts/1/", "user", "u", "rest", "of the caller"), "per-id[1](7) per-post(u,1,)"},
		{callOf("", "path", "/users/8/posts/1/", "user", "u"), "per-id(8)"},
		{callOf("", "path", "/users/8/posts/1/", "user", "u", "someone", "x"), "per-id(8)"},
		{callOf("", "path", "/elsewhere", "id", "7", "number", "7"), "no-path(7)"},
		{callOf("", "id", "7"), "no-path(7)"},
	} {
		s.Match(test.call, 1, &m)
		if got := told(&m); got != test.want {
			t.Errorf("%+v: %q, want %q", test.call.Attributes, got, test.want)
		}
		checkExplainedAt(t, s, test.call, 1, &m)
	}
	e := s.Explain(callOf("", "path", "/users/7/posts/1/a/b", "user", "u"), 1, nil)
	want := []penstock.Attribute{{Name: "user", Value: "u"}, {Name: "post", Value: "1"}, {Name: "rest", Value: "a/b"}}
	if got := e.Rules[1].Key; !slices.Equal(got, want) {
		t.Errorf("explained with the key %+v", got)
	}
}

// The subject is that of an attribute with the wildcard's name: the counter can be found by the id.
func TestSubjectOfAWildcard(t *testing.T) {
	s := snapshotOf(t, `rules: [{name: a, key: [id], limits: [10/1m], match: {path: "/users/{id}"}}]`)
	var m Match
	s.Match(callOf("", "path", "/users/7"), 1, &m)
	want := s.Hasher.Subject("default", "a", penstock.Attribute{Name: "id", Value: "7"})
	if got := m.Rules[0].Rule.Subjects.Subject(m.Rules[0].Key...); got != want {
		t.Errorf("subject %v, want %v", got, want)
	}
}

// Rules whose wildcards have the same names share a compiled language, and the number of languages is bounded.
func TestExpressionsOverManyWildcards(t *testing.T) {
	document := func(n int, name func(i int) string) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range n {
			fmt.Fprintf(&b, "  - {name: r%d, key: [], limits: [1/1m], match: {path: \"/%d/{%s}\", when: %s != \"\"}}\n", i, i, name(i), name(i))
		}
		return b.String()
	}
	s := compiled(t, document(1000, func(int) string { return "id" }))
	if a, b := s.Rules[0].item.When, s.Rules[999].item.When; a != b {
		t.Error("equal expressions are compiled twice")
	}
	problems := problemsOf(document(maxLanguages+1, func(i int) string { return fmt.Sprint("id", i) }))
	if len(problems) != 1 || !strings.Contains(problems[0], fmt.Sprint("more than ", maxLanguages, " different sets of wildcards")) {
		t.Error(problems)
	}
}

// Rules that use wildcards heavily and often match: random rules hardly ever use one.
func TestWildcardsAgreeWithNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() (m naive.Match) {
			m.Path = rapid.SampledFrom(naive.Paths).Draw(t, "path")
			if rapid.Bool().Draw(t, "some") {
				m.When = naive.OverWildcards
			}
			return m
		}
		w := &naive.Rules{}
		for range rapid.IntRange(1, 12).Draw(t, "rules") {
			r := naive.Rule{Match: draw()}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "r"}), 0, 3, rapid.ID).Draw(t, "key") {
				r.Key = append(r.Key, index.KeyPart{Name: name, Optional: rapid.Bool().Draw(t, "optional")})
			}
			for range rapid.IntRange(0, 2).Draw(t, "overrides") {
				r.Overrides = append(r.Overrides, naive.Override{Match: draw()})
			}
			w.Rules = append(w.Rules, r)
		}
		w.Deny = []naive.Match{{When: naive.OverWildcards, Attributes: naive.Attributes("user", "mallory")}}
		x := compileWritten(t, w)
		var m Match
		for range 20 {
			call := callOf("", "path", rapid.SampledFrom(naive.RequestPaths).Draw(t, "call path"))
			for _, name := range []string{"x", "r"} {
				if rapid.Bool().Draw(t, "has "+name) {
					call.Attributes = append(call.Attributes, penstock.Attribute{Name: name, Value: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, name)})
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "mallory") == 0 {
				call.Attributes = append(call.Attributes, penstock.Attribute{Name: "user", Value: "mallory"})
			}
			if diff := differ(x, w, call, &m); diff != "" {
				t.Fatalf("%+v: naive and indexed (-, +):\n%s", call, diff)
			}
			checkExplainedAt(t, x, call, penstock.InstantOf(naive.Moment), &m)
		}
	})
}

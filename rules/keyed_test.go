package rules_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

const keyedRules = `
attributes: {user: {header: X-User}, plan: {header: X-Plan}}
rules:
  - name: search
    match: {method: GET, path: /search}
    key: [user]
    limits: [10/1m]
    overrides: [{match: {plan: gold}, limits: [100/1m]}]
  - {name: by-path, key: [path], limits: [10/1m]}
  - name: posts
    match: {path: "/users/{id}/posts/{rest...}"}
    key: [id]
    limits: [10/1m]
    overrides: [{match: {when: rest == "new"}, limits: unlimited}]
  - {name: both, key: [user, ip], limits: [10/1m]}
  - {name: maybe, key: ["user?", ip], limits: [10/1m]}
  - {name: elsewhere, match: {domain: other}, key: [user], limits: [10/1m]}
  - {name: all, key: [], limits: [10/1m]}
  - {name: gone, mode: off, key: [user], limits: [10/1m]}
  - {name: over, key: [user], limits: [10/1m], expires_at: 2020-01-01T00:00:00Z}
`

func TestKeyed(t *testing.T) {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Data: []byte(keyedRules)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := penstock.Instant(1_800_000_000_000_000)
	for _, test := range []struct {
		domain     string
		attributes []string
		want       []string
	}{
		{"", nil, []string{"all []"}},
		{"", []string{"user", "u1"}, []string{"search [{user u1}]", "elsewhere [{user u1}]", "all []"}},
		{"other", []string{"user", "u1"}, []string{"elsewhere [{user u1}]"}},
		{"default", []string{"user", "u1", "plan", "gold"}, []string{"search [{user u1}] override 0", "all []"}},
		{"default", []string{"user", "u1", "plan", "gold", "path", "/search"}, []string{"search [{user u1}] override 0", "by-path [{path /search}]", "all []"}},
		{"", []string{"ip", "192.0.2.1"}, []string{"maybe [{user } {ip 192.0.2.1}]", "all []"}},
		{"default", []string{"ip", "192.0.2.1", "user", "u1"}, []string{"search [{user u1}]", "both [{user u1} {ip 192.0.2.1}]", "maybe [{user u1} {ip 192.0.2.1}]", "all []"}},
		{"", []string{"path", "/a/../b"}, []string{"by-path [{path /b}]", "all []"}},
		{"", []string{"id", "7"}, []string{"posts [{id 7}]", "all []"}},
		{"", []string{"path", "/users/7/posts/new"}, []string{"by-path [{path /users/7/posts/new}]", "posts [{id 7}] override 0", "all []"}},
		{"", []string{"path", "/users/7/posts/old"}, []string{"by-path [{path /users/7/posts/old}]", "posts [{id 7}]", "all []"}},
	} {
		call := penstock.Call{Domain: test.domain}
		for i := 0; i < len(test.attributes); i += 2 {
			call.Attributes = append(call.Attributes, penstock.Attribute{Name: test.attributes[i], Value: test.attributes[i+1]})
		}
		var got []string
		for _, c := range snapshot.Keyed(&call, now, nil) {
			text := fmt.Sprint(c.Rule.Name, " ", c.Key)
			if c.Override != rules.NoOverride {
				text += fmt.Sprint(" override ", c.Override)
			}
			got = append(got, text)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s %q: got %q, want %q", test.domain, test.attributes, got, test.want)
		}
	}
}

// Every rule that matches a request keeps its state under the key that Keyed returns.
func TestKeyedAsMatched(t *testing.T) {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Data: []byte(keyedRules)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := penstock.Instant(1_800_000_000_000_000)
	call := penstock.Call{Domain: "default"}
	for _, path := range []string{"/search", "/users/7/posts/new", "/users/a%2Fb/posts", "//users/./7/posts/x", "/"} {
		call.Attributes = []penstock.Attribute{{Name: "user", Value: "u1"}, {Name: "ip", Value: "192.0.2.1"}, {Name: "method", Value: "GET"}, {Name: "path", Value: path}, {Name: "plan", Value: "gold"}}
		var m rules.Match
		snapshot.Match(&call, now, &m)
		keyed := snapshot.Keyed(&call, now, nil)
		for _, matched := range m.Rules {
			i := slices.IndexFunc(keyed, func(c rules.RuleExplanation) bool { return c.Rule == matched.Rule })
			if i < 0 {
				t.Errorf("%s: %s matches and is not keyed", path, matched.Rule.Name)
				continue
			}
			var values []string
			for _, part := range keyed[i].Key {
				values = append(values, part.Value)
			}
			if !slices.Equal(values, matched.Key) || keyed[i].Override != matched.Override {
				t.Errorf("%s: %s: got %q and override %d, want %q and %d", path, matched.Rule.Name, values, keyed[i].Override, matched.Key, matched.Override)
			}
		}
	}
}

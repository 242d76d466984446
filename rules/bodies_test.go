package rules

import (
	"testing"

	"github.com/penstock-io/penstock"
)

// A body is read only for requests that a rule which reads it may match.
func TestReadsBody(t *testing.T) {
	const attributes = "attributes: {model: {json: model}, user: {header: X-User}}\n"
	const chat = "  - {name: chat, match: {method: POST, path: '/v1/{rest...}'}, key: [model], limits: [10/1m]}\n"
	for _, test := range []struct {
		name, text   string
		method, path string
		want         bool
	}{
		{"the rule's path", chat, "POST", "/v1/chat", true},
		{"another method", chat, "GET", "/v1/chat", false},
		{"another path", chat, "POST", "/upload", false},
		{"a rule that is off", "  - {name: a, mode: off, key: [model], limits: [10/1m]}\n", "POST", "/", false},
		{"a rule that expired", "  - {name: a, expires_at: 2020-01-01T00:00:00Z, key: [model], limits: [10/1m]}\n", "POST", "/", false},
		{"another domain", "  - {name: a, match: {domain: mesh}, key: [model], limits: [10/1m]}\n", "POST", "/", false},
		{"no rule", "  - {name: a, key: [user], limits: [10/1m]}\n", "POST", "/", false},
		{"in a match", "  - {name: a, match: {model: large}, key: [], limits: [10/1m]}\n", "POST", "/", true},
		{"in an expression", "  - {name: a, match: {when: 'model == \"x\"'}, key: [], limits: [10/1m]}\n", "POST", "/", true},
		{"in an override", "  - {name: a, key: [], limits: [10/1m], overrides: [{match: {model: x}, limits: [1/1m]}]}\n", "POST", "/", true},
		{"in a cost", "  - {name: a, key: [], cost: {attribute: model}, limits: [10/1m]}\n", "POST", "/", true},
		{"in an estimate", "  - {name: a, key: [], cost: {estimate: int(model)}, limits: [10/1m]}\n", "POST", "/", true},
		{"in a list", "  - {name: a, key: [], limits: [10/1m]}\nlists: {deny: [{model: x}]}\n", "GET", "/", true},
	} {
		s := compiled(t, attributes+"rules:\n"+test.text)
		c := penstock.Call{Attributes: []penstock.Attribute{{Name: "method", Value: test.method}, {Name: "path", Value: test.path}}}
		if got := s.ReadsBody(&c, penstock.InstantOf(testNow)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
		if got := s.NeedsField(&c, penstock.InstantOf(testNow), "model"); got != test.want {
			t.Errorf("%s: the field is needed is %v", test.name, got)
		}
	}
}

// Before the body is read, only what reads nothing of it decides. The allow list waits for a deny list that does.
func TestMatchHead(t *testing.T) {
	const head = "attributes: {model: {json: model}, user: {header: X-User}}\n"
	const perUser = "rules:\n  - {name: users, key: [user], limits: [10/1m]}\n  - {name: models, key: [user], limits: [10/1m], overrides: [{match: {model: x}, limits: [1/1m]}]}\n"
	for _, test := range []struct {
		name, lists, user string
		denied, allowed   bool
		rules             string
	}{
		{"rules", "", "ann", false, false, "users"},
		{"the deny list", "lists: {deny: [{user: ann}]}", "ann", true, false, ""},
		{"the allow list", "lists: {allow: [{user: ann}]}", "ann", false, true, ""},
		{"a deny list that reads bodies", "lists: {deny: [{user: ann}, {model: '*'}]}", "ann", true, false, ""},
		{"another client of a deny list that reads bodies", "lists: {deny: [{user: ann}, {model: '*'}]}", "bob", false, false, "users"},
		{"the allow list after a deny list that reads bodies", "lists: {allow: [{user: ann}], deny: [{model: x}]}", "ann", false, false, ""},
		{"an allow list that reads bodies", "lists: {allow: [{user: ann}, {model: x}]}", "ann", false, true, ""},
		{"conditions on both", "lists: {deny: [{user: ann, model: x}]}", "ann", false, false, "users"},
	} {
		s := compiled(t, head+perUser+test.lists)
		c := penstock.Call{Attributes: []penstock.Attribute{{Name: "user", Value: test.user}}}
		var m Match
		s.MatchHead(&c, penstock.InstantOf(testNow), &m)
		names := ""
		for _, f := range m.Rules {
			names += f.Rule.Name
		}
		if m.Denied != test.denied || m.Allowed != test.allowed || names != test.rules {
			t.Errorf("%s: denied %v, allowed %v, rules %q", test.name, m.Denied, m.Allowed, names)
		}
	}
}

// Only what may deny a request needs a field: neither shadow rules nor the allow list, nor rules that read another one.
func TestNeedsField(t *testing.T) {
	s := compiled(t, `
attributes: {model: {json: model}, tool: {json: tool}}
rules:
  - {name: tried, mode: shadow, key: [model], limits: [10/1m]}
  - {name: tools, match: {path: '/tools'}, key: [tool], limits: [10/1m]}
lists: {allow: [{model: free}]}
`)
	for _, test := range []struct {
		path, attribute string
		want            bool
	}{
		{"/", "model", false}, {"/", "tool", false}, {"/tools", "model", false}, {"/tools", "tool", true},
	} {
		c := penstock.Call{Attributes: []penstock.Attribute{{Name: "method", Value: "POST"}, {Name: "path", Value: test.path}}}
		if got := s.NeedsField(&c, penstock.InstantOf(testNow), test.attribute); got != test.want {
			t.Errorf("%s at %s: %v", test.attribute, test.path, got)
		}
		if !s.ReadsBody(&c, penstock.InstantOf(testNow)) {
			t.Errorf("%s: the body is not read", test.path)
		}
	}
}

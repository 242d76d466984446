package envoyratelimit

import (
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Counters are named by the entries of a descriptor, so that they survive changes of the files and other versions of
// Penstock find them.
func TestCounters(t *testing.T) {
	const text = `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: a, value: x, rate_limit: {unit: hour, requests_per_unit: 2, name: named}}
  - key: a
    value: s*
    share_threshold: true
    descriptors: [{key: a, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}]
  - {key: free, rate_limit: {unlimited: true}}
`
	h := storage.NewHasher("secret")
	for _, together := range []bool{false, true} {
		s, _, err := Options{Together: together}.Compile(file1(text), rules.Options{Secret: "secret", Version: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Rules) != 3 || s.Version != 3 {
			t.Errorf("%d rules, version %d", len(s.Rules), s.Version)
		}
		for i, c := range []struct {
			ask   []penstock.Attribute
			rule  string
			mode  rules.Mode
			alone bool
			who   storage.Subject
		}{
			{entries("a", "y"), "d.a", rules.Enforce, !together, h.Subject("d", "envoy ratelimit", entries("a", "y")...)},
			{entries("a", "x"), "named", rules.Enforce, !together, h.Subject("d", "envoy ratelimit", entries("a", "x")...)},
			{entries("a", "s1", "a", "y"), "d.a_s*.a", rules.Shadow, true, h.Subject("d", "envoy ratelimit shared 1", entries("a", "s*", "a", "y")...)},
		} {
			l := s.Matcher.(*Config).find("d", c.ask)
			if l.rule != s.Rules[i] || l.rule.Index != i || l.rule.Name != c.rule || l.rule.Mode != c.mode || l.alone != c.alone || l.rule.Limits[0].CountAll != c.alone {
				t.Errorf("together %v, %v: %+v", together, c.ask, l.rule)
			}
			if who := l.rule.Subjects.Subject(l.appendKey(nil, c.ask)...); who != c.who {
				t.Errorf("%v is counted as another", c.ask)
			}
		}
		if l := s.Matcher.(*Config).find("d", entries("free", "1")); l == nil || l.rule != nil {
			t.Errorf("what is unlimited: %+v", l)
		}
		var m rules.Match
		if s.Match(&penstock.Call{Domain: "d", Attributes: entries("a", "y"), Cost: 1}, 0, &m); len(m.Rules) != 0 {
			t.Error("other matchers find what the files say")
		}
		keyed := s.Keyed(&penstock.Call{Attributes: entries("a", "y")}, 0, nil)
		if len(keyed) != 1 || keyed[0].Rule != s.Rules[0] || keyed[0].Key[0] != entries("a", "y")[0] {
			t.Errorf("limits that count a client: %+v", keyed)
		}
	}
}

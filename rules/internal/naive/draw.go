package naive

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/urlform"
	"github.com/penstock-io/penstock/rules/internal/index"
)

var (
	someDomains = []string{"default", "d", "e"}
	someMethods = []string{"GET", "POST", "PUT"}
	someNames   = []string{"user", "plan", "ip", "host", "path", "domain", "method"}
	keyNames    = append([]string{"x", "y", "r"}, someNames...) // some are wildcards in some of the paths
	someValues  = []string{
		"gold", "free", "alice", "bob", "7", "10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.0/24", "192.0.2.1",
		"*", "a*", "al*", "*e", "*ce", "*o*", "g*d", "10.*", "/a*", "GET", "default",
	}
	someTexts = []string{"gold", "free", "alice", "bob", "alfred", "god", "7", "", "10.0.0.1", "10.0.1.1", "11.0.0.1", "::ffff:10.0.0.9", "2001:db8::1", "2001:db9::1", "64:ff9b::c000:201", "2002:C000:201:5::1", "192.0.2.1", "nonsense"}
)

// Moment is when drawn rules are decided. Some expire then, some just before or after.
var Moment = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Paths are patterns of drawn rules, RequestPaths the paths of drawn requests.
var (
	Paths        = []string{"/", "/a", "/a/", "/b", "/a/b", "/{x}", "/{x}/b", "/a/{x}", "/{x}/{y}", "/{r...}", "/a/{r...}", "/{x}/b/{r...}", "/a/b/{x}", "/a/%2F", "/A/b", "/a;v/{x}", "/a/b/"}
	RequestPaths = []string{"/", "/a", "/a/", "/a/b", "/a/b/", "/b", "/b/b", "/a/b/c", "/c/b/d/e", "//a/./b", "/a/%2f", "/%61", "/A", "/A/B/", "/a;x=1", "/a;x/b;y/", "/a/..;x/b", "/;x/a/B/c"}
)

func drawMatch(t *rapid.T, label string) Match {
	var m Match
	some := func(percent int) bool { return rapid.IntRange(0, 99).Draw(t, label+" some") < percent }
	if some(60) {
		m.Domain = rapid.SampledFrom(someDomains).Draw(t, "domain")
	}
	if some(30) {
		m.Methods = rapid.SliceOfNDistinct(rapid.SampledFrom(someMethods), 1, 3, rapid.ID).Draw(t, "methods")
	}
	if some(50) {
		m.Path = rapid.SampledFrom(Paths).Draw(t, "path")
	}
	for _, name := range someNames {
		if some(15) {
			values := rapid.SliceOfN(rapid.SampledFrom(someValues), 1, 3).Draw(t, name)
			m.Attributes = append(m.Attributes, Attribute{name, values})
		}
	}
	switch {
	case some(15):
		m.When = OverWildcards
	case some(10):
		m.When = rapid.SampledFrom(slices.Sorted(maps.Keys(Whens))).Draw(t, "when")
		m.OnError = OnError(rapid.IntRange(0, 2).Draw(t, "on_error"))
	}
	return m
}

func drawExpiry(t *rapid.T) time.Time {
	return rapid.SampledFrom([]time.Time{{}, {}, {}, Moment.Add(-time.Hour), Moment, Moment.Add(time.Microsecond)}).Draw(t, "expires")
}

// Draw returns random rules.
func Draw(t *rapid.T) *Rules {
	ignored := rapid.SampledFrom([]urlform.Ignore{0, 0, 0, urlform.Case, urlform.TrailingSlash, urlform.MatrixParameters, urlform.Case | urlform.TrailingSlash | urlform.MatrixParameters})
	w := &Rules{}
	most := rapid.SampledFrom([]int{3, 40}).Draw(t, "size")
	for range rapid.IntRange(0, most).Draw(t, "rules") {
		r := Rule{Match: drawMatch(t, "rule"), Off: rapid.IntRange(0, 19).Draw(t, "off") == 0, Expires: drawExpiry(t), Ignore: ignored.Draw(t, "ignore")}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(keyNames), 0, 2, rapid.ID).Draw(t, "key") {
			part := index.KeyPart{Name: name, Optional: rapid.Bool().Draw(t, "optional")}
			if name == "ip" || name == "user" {
				part.Prefix = rapid.SampledFrom([]int{0, 48}).Draw(t, "prefix")
			}
			r.Key = append(r.Key, part)
		}
		overrides := rapid.SampledFrom([]int{0, 0, 2, 12}).Draw(t, "overrides")
		for range overrides {
			r.Overrides = append(r.Overrides, Override{drawMatch(t, "override"), drawExpiry(t)})
		}
		w.Rules = append(w.Rules, r)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 12}).Draw(t, "deny") {
		w.Deny = append(w.Deny, drawMatch(t, "deny"))
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 12}).Draw(t, "allow") {
		w.Allow = append(w.Allow, drawMatch(t, "allow"))
	}
	return w
}

// DrawCall returns a random request.
func DrawCall(t *rapid.T) *penstock.Call {
	c := &penstock.Call{Domain: rapid.SampledFrom(append(someDomains, "")).Draw(t, "call domain")}
	add := func(name string, values []string) {
		if rapid.IntRange(0, 9).Draw(t, "has "+name) > 0 {
			c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: rapid.SampledFrom(values).Draw(t, "call "+name)})
		}
	}
	add("method", someMethods)
	add("path", RequestPaths)
	for _, name := range []string{"user", "plan", "ip", "host", "other", "x", "r"} {
		add(name, someTexts)
	}
	return c
}

package rules

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/internal/urlform"
)

var (
	someDomains = []string{"default", "d", "e"}
	someMethods = []string{"GET", "POST", "PUT"}
	someNames   = []string{"user", "plan", "ip", "host", "path", "domain", "method"}
	keyNames    = append([]string{"x", "y", "r"}, someNames...) // some are wildcards in some of the paths
	somePaths   = []string{"/", "/a", "/a/", "/b", "/a/b", "/{x}", "/{x}/b", "/a/{x}", "/{x}/{y}", "/{r...}", "/a/{r...}", "/{x}/b/{r...}", "/a/b/{x}", "/a/%2F", "/A/b", "/a;v/{x}", "/a/b/"}
	someValues  = []string{
		"gold", "free", "alice", "bob", "7", "10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32", "0.0.0.0/0", "2001:db8::/32", "::/0", "192.0.2.0/24", "192.0.2.1",
		"*", "a*", "al*", "*e", "*ce", "*o*", "g*d", "10.*", "/a*", "GET", "default",
	}
	someTexts = []string{"gold", "free", "alice", "bob", "alfred", "god", "7", "", "10.0.0.1", "10.0.1.1", "11.0.0.1", "::ffff:10.0.0.9", "2001:db8::1", "2001:db9::1", "64:ff9b::c000:201", "2002:C000:201:5::1", "192.0.2.1", "nonsense"}
	calls     = []string{"/", "/a", "/a/", "/a/b", "/a/b/", "/b", "/b/b", "/a/b/c", "/c/b/d/e", "//a/./b", "/a/%2f", "/%61", "/A", "/A/B/", "/a;x=1", "/a;x/b;y/", "/a/..;x/b", "/;x/a/B/c"}
	moment    = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

func drawWritten(t *rapid.T, label string) written {
	var m written
	some := func(percent int) bool { return rapid.IntRange(0, 99).Draw(t, label+" some") < percent }
	if some(60) {
		m.domain = rapid.SampledFrom(someDomains).Draw(t, "domain")
	}
	if some(30) {
		m.methods = rapid.SliceOfNDistinct(rapid.SampledFrom(someMethods), 1, 3, rapid.ID).Draw(t, "methods")
	}
	if some(50) {
		m.path = rapid.SampledFrom(somePaths).Draw(t, "path")
	}
	for _, name := range someNames {
		if some(15) {
			values := rapid.SliceOfN(rapid.SampledFrom(someValues), 1, 3).Draw(t, name)
			m.attributes = append(m.attributes, writtenAttribute{name, values})
		}
	}
	switch {
	case some(15):
		m.when = overWildcards
	case some(10):
		var whens []string
		for when := range writtenWhens {
			whens = append(whens, when)
		}
		slices.Sort(whens)
		m.when = rapid.SampledFrom(whens).Draw(t, "when")
		m.onError = OnError(rapid.IntRange(0, 2).Draw(t, "on_error"))
	}
	return m
}

func drawExpiry(t *rapid.T) time.Time {
	return rapid.SampledFrom([]time.Time{{}, {}, {}, moment.Add(-time.Hour), moment, moment.Add(time.Microsecond)}).Draw(t, "expires")
}

func drawRules(t *rapid.T) *writtenRules {
	ignored := rapid.SampledFrom([]urlform.Ignore{0, 0, 0, urlform.Case, urlform.TrailingSlash, urlform.MatrixParameters, urlform.Case | urlform.TrailingSlash | urlform.MatrixParameters})
	w := &writtenRules{}
	most := rapid.SampledFrom([]int{3, 40}).Draw(t, "size")
	for range rapid.IntRange(0, most).Draw(t, "rules") {
		r := writtenRule{match: drawWritten(t, "rule"), off: rapid.IntRange(0, 19).Draw(t, "off") == 0, expires: drawExpiry(t), ignore: ignored.Draw(t, "ignore")}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(keyNames), 0, 2, rapid.ID).Draw(t, "key") {
			part := KeyPart{Name: name, Optional: rapid.Bool().Draw(t, "optional")}
			if name == "ip" || name == "user" {
				part.Prefix = rapid.SampledFrom([]int{0, 48}).Draw(t, "prefix")
			}
			r.key = append(r.key, part)
		}
		overrides := rapid.SampledFrom([]int{0, 0, 2, 12}).Draw(t, "overrides")
		for range overrides {
			r.overrides = append(r.overrides, writtenOverride{drawWritten(t, "override"), drawExpiry(t)})
		}
		w.rules = append(w.rules, r)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 12}).Draw(t, "deny") {
		w.deny = append(w.deny, drawWritten(t, "deny"))
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 12}).Draw(t, "allow") {
		w.allow = append(w.allow, drawWritten(t, "allow"))
	}
	return w
}

func drawCall(t *rapid.T) *penstock.Call {
	c := &penstock.Call{Domain: rapid.SampledFrom(append(someDomains, "")).Draw(t, "call domain")}
	add := func(name string, values []string) {
		if rapid.IntRange(0, 9).Draw(t, "has "+name) > 0 {
			c.Attributes = append(c.Attributes, penstock.Attribute{Name: name, Value: rapid.SampledFrom(values).Draw(t, "call "+name)})
		}
	}
	add("method", someMethods)
	add("path", calls)
	for _, name := range []string{"user", "plan", "ip", "host", "other", "x", "r"} {
		add(name, someTexts)
	}
	return c
}

// compileWritten makes of texts what Compile would.
func compileWritten(t rapid.TB, w *writtenRules) *index {
	language, err := newLanguage([]string{"user", "plan", "x", "r"})
	if err != nil {
		t.Fatal(err)
	}
	match := func(m written, ignore urlform.Ignore) conditions {
		c, err := m.conditions(language, ignore)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var all []Rule
	for i, r := range w.rules {
		rule := Rule{Name: fmt.Sprint("rule-", i), conditions: match(r.match, r.ignore), Key: r.key, Expires: r.expires}
		if r.off {
			rule.Mode = Off
		}
		for _, o := range r.overrides {
			rule.Overrides = append(rule.Overrides, Override{conditions: match(o.match, r.ignore), Expires: o.expires})
		}
		all = append(all, rule)
	}
	var allow, deny []listEntry
	for _, m := range w.allow {
		allow = append(allow, listEntry{match(m, 0)})
	}
	for _, m := range w.deny {
		deny = append(deny, listEntry{match(m, 0)})
	}
	return newIndex(all, allow, deny)
}

func (m written) conditions(l *language, ignore urlform.Ignore) (c conditions, err error) {
	c.domain, c.methods, c.path.ignore = m.domain, m.methods, ignore
	if m.path != "" {
		if c.path, err = parsePath(m.path, ignore); err != nil {
			return c, err
		}
	}
	for _, a := range m.attributes {
		condition := attributeCondition{name: a.name}
		for _, text := range a.values {
			p, err := parsePattern(text)
			if err != nil {
				return c, err
			}
			condition.patterns = append(condition.patterns, p)
		}
		c.attributes = append(c.attributes, condition)
	}
	if m.when != "" {
		c.when, err = l.compile(m.when)
		c.onError = m.onError
	}
	return c, err
}

func (x *index) verdict(m *Match) verdict {
	v := verdict{denied: m.Denied, allowed: m.Allowed, refused: m.Refused != nil}
	for _, r := range m.Rules {
		v.rules = append(v.rules, slices.IndexFunc(x.all, func(rule Rule) bool { return rule.Name == r.Rule.Name }))
		v.overrides = append(v.overrides, r.Override)
		v.keys = append(v.keys, append([]string{}, r.Key...))
	}
	return v
}

// differ returns how the index and the naive matcher disagree about a call.
func differ(x *index, w *writtenRules, call *penstock.Call, m *Match) string {
	now := penstock.InstantOf(moment)
	x.match(call, now, m)
	return cmp.Diff(w.naive(call, now), x.verdict(m), cmp.AllowUnexported(verdict{}))
}

func checkRandom(t *rapid.T) {
	w := drawRules(t)
	x := compileWritten(t, w)
	var m Match
	for range 20 {
		call := drawCall(t)
		if diff := differ(x, w, call, &m); diff != "" {
			t.Fatalf("%+v: naive and indexed (-, +):\n%s", call, diff)
		}
		checkExplainedAt(t, x, call, penstock.InstantOf(moment), &m)
	}
}

// checkExplainedAt holds an explanation against a match.
func checkExplainedAt(t rapid.TB, x *index, call *penstock.Call, now penstock.Instant, m *Match) {
	e := x.explain(call, now)
	if e.Denied != m.Denied || e.Allowed != m.Allowed || len(e.Rules) != len(x.all) {
		t.Fatalf("%+v: explained as denied %v, allowed %v by %d rules; matched as %v, %v of %d", call, e.Denied, e.Allowed, len(e.Rules), m.Denied, m.Allowed, len(x.all))
	}
	var matched []Matched
	refused := false
	for i, c := range e.Rules {
		if c.Rule != &x.all[i] || c.Matches != (c.Reason == "") || c.Matches != (c.Why == "") {
			t.Fatalf("%+v: rule %d explained as %+v", call, i, c)
		}
		refused = refused || c.Refuses
		if c.Matches {
			key := []string{}
			for _, a := range c.Key {
				key = append(key, a.Value)
			}
			matched = append(matched, Matched{c.Rule, c.Override, key})
		}
	}
	if m.Denied || m.Allowed {
		return
	}
	if refused != (m.Refused != nil) {
		t.Fatalf("%+v: explained as refused %v, matched as %+v", call, refused, m)
	}
	if !slices.EqualFunc(matched, m.Rules, func(a, b Matched) bool {
		return a.Rule == b.Rule && a.Override == b.Override && slices.Equal(a.Key, b.Key)
	}) {
		t.Fatalf("%+v: explained %+v, matched %+v", call, matched, m.Rules)
	}
}

func TestIndexAgreesWithNaive(t *testing.T) { rapid.Check(t, checkRandom) }

func FuzzMatch(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkRandom)) }

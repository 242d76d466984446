package traffic

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// An Event is one decided call that was kept.
type Event struct {
	At         time.Time
	Domain     string
	Attributes []penstock.Attribute // cut, if there are many or they are long
	Cost       int64
	ID         bool // whether it had one

	Allowed      bool
	Duplicate    bool
	Reason       penstock.Reason
	Quality      penstock.Quality
	Rule         string        // that decided
	RetryAfter   time.Duration // or penstock.Never
	Limits       []penstock.LimitVerdict
	RulesVersion int64

	Keys   []RuleKey // of the rules that were asked
	Shadow []string  // rules that are only tried and would have denied it

	weight int64 // how many calls it stands for; 0: it was kept because somebody watches
}

// A RuleKey is whom a rule took the caller for, and what it said.
type RuleKey struct {
	Rule   string
	Key    []penstock.Attribute
	Result Result
}

// Bounds of what is kept of a call.
const (
	maxAttributes = 32
	maxText       = 256 // bytes of a name or a value
)

// keep copies what is to be remembered. Nothing in it shares memory with the request: a few bytes of
// a header must not keep the whole of it.
func keep(o *engine.Observation, weight int64) Event {
	v := o.Verdict
	e := Event{
		At: v.Now.Time(), Domain: strings.Clone(cut(o.Call.Domain)), Cost: o.Call.Cost, ID: o.Call.ID != "",
		Allowed: v.Allowed, Duplicate: v.Duplicate, Reason: v.Reason, Quality: v.Quality, Rule: v.Rule,
		RetryAfter: v.Decision.RetryAfter, Limits: slices.Clone(v.Limits), RulesVersion: v.RulesVersion, weight: weight,
	}
	attributes := o.Call.Attributes[:min(len(o.Call.Attributes), maxAttributes)]
	e.Attributes = make([]penstock.Attribute, len(attributes))
	for i, a := range attributes {
		e.Attributes[i] = penstock.Attribute{Name: strings.Clone(cut(a.Name)), Value: strings.Clone(cut(a.Value))}
	}
	limits := v.Limits
	for i := range o.Matched {
		m := &o.Matched[i]
		allowed, n := outcome(limits, m.Rule.Name)
		if n == 0 {
			continue
		}
		limits = limits[n:]
		k := RuleKey{Rule: m.Rule.Name, Result: resultOf(m.Rule.Mode == rules.Shadow, allowed), Key: make([]penstock.Attribute, len(m.Key))}
		for j, value := range m.Key {
			k.Key[j] = penstock.Attribute{Name: m.Rule.Key[j].Name, Value: strings.Clone(cut(value))}
		}
		e.add(k)
	}
	return e
}

func (e *Event) add(k RuleKey) {
	e.Keys = append(e.Keys, k)
	if k.Result == ShadowDenied {
		e.Shadow = append(e.Shadow, k.Rule)
	}
}

// cut shortens a text. Half a character at its end becomes none.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// A Filter says which calls are wanted. The zero Filter wants all.
type Filter struct {
	Rule             string // only those that came under it
	Denied           bool   // only those that were denied
	Attribute, Value string // only those whose attribute has the value, or begins with it if it is long
}

func (f *Filter) wants(o *engine.Observation) bool {
	if f.Denied && o.Verdict.Allowed {
		return false
	}
	if f.Rule != "" && !slices.ContainsFunc(o.Verdict.Limits, func(l penstock.LimitVerdict) bool { return l.Rule == f.Rule }) {
		return false
	}
	if f.Attribute == "" {
		return true
	}
	value, ok := o.Call.Attribute(f.Attribute)
	return ok && cut(value) == cut(f.Value)
}

func (f *Filter) wantsEvent(e *Event) bool {
	if f.Denied && e.Allowed {
		return false
	}
	if f.Rule != "" && !slices.ContainsFunc(e.Keys, func(k RuleKey) bool { return k.Rule == f.Rule }) {
		return false
	}
	return f.Attribute == "" || slices.Contains(e.Attributes, penstock.Attribute{Name: f.Attribute, Value: cut(f.Value)})
}

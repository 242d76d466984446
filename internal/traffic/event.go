package traffic

import (
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// An Event is one decided request that was kept.
type Event struct {
	At         time.Time
	Domain     string
	Attributes []penstock.Attribute // truncated, if there are many or they are long
	Cost       int64
	ID         bool // whether it had one

	Allowed      bool
	Duplicate    bool
	Reason       penstock.Reason
	Quality      penstock.Quality
	Rule         string        // the rule that decided
	RetryAfter   time.Duration // or penstock.Never
	Limits       []penstock.LimitVerdict
	RulesVersion int64

	Keys   []RuleKey // of the rules that were asked
	Shadow []string  // shadow rules that would have denied it

	Represents int64 // number of requests; 0: it was kept for a live stream only
}

// A RuleKey is the client's key under a rule, and the rule's decision.
type RuleKey struct {
	Rule   string
	Key    []penstock.Attribute
	Result Result
}

// Bounds of what is kept of a request.
const (
	maxAttributes = 32
	maxText       = 256 // bytes of a name or a value
)

// keep copies what is remembered. The copy shares no memory with the request: a few bytes of a header must not keep
// the whole header alive.
func keep(o *engine.Observation, weight int64) Event {
	v := o.Verdict
	e := Event{
		At: v.Now.Time(), Domain: strings.Clone(cut(o.Call.Domain)), Cost: o.Call.Cost, ID: o.Call.ID != "",
		Allowed: v.Allowed, Duplicate: v.Duplicate, Reason: v.Reason, Quality: v.Quality, Rule: v.Rule,
		RetryAfter: v.Decision.RetryAfter, Limits: slices.Clone(v.Limits), RulesVersion: v.RulesVersion, Represents: weight,
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
		e.Keys = append(e.Keys, k)
		if k.Result == ShadowDenied {
			e.Shadow = append(e.Shadow, k.Rule)
		}
	}
	return e
}

// cut truncates a text. It drops half a character at the end.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// A Filter selects requests. The zero Filter selects all.
type Filter struct {
	Rule             string // only requests under this rule
	Denied           bool   // only denied requests
	Attribute, Value string // only requests whose attribute has the value, or begins with it if it is long
}

func (f *Filter) matches(o *engine.Observation) bool {
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

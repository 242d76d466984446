package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A KeyedMatcher is a Matcher that knows which of its rules keep state for a client. See [Snapshot.Keyed].
type KeyedMatcher interface {
	Keyed(call *penstock.Call) []Considered
}

// Keyed returns the rules that keep state for a client with these attributes, whatever their other conditions. A
// rule is included if the attributes fill its key. Wildcards of the rule's path are given by name or by a path. A
// call without a domain covers every domain. The limits are those after overrides, as far as the attributes
// determine them. Keyed is for operators, not for every request. A Matcher that is a [KeyedMatcher] answers for
// its own rules. Numbers of limits are looked up in entitlements, which may be nil.
func (s *Snapshot) Keyed(call *penstock.Call, now penstock.Instant, entitlements Entitlements) []Considered {
	if m, ok := s.Matcher.(KeyedMatcher); ok {
		return m.Keyed(call)
	}
	v, data := s.index.Values(call), dataAt(entitlements, now)
	var found []Considered
	for i := range s.all {
		r := &s.all[i]
		if r.Mode == Off || expired(r.Expires, now) || call.Domain != "" && call.Domain != r.Domain() {
			continue
		}
		v.Consider(r.item)
		v.SetDomain(r.Domain())
		c := Considered{Rule: r, Matches: true, Override: NoOverride, Limits: r.Limits}
		if !c.fill(s.index, call, v) {
			continue
		}
		if len(r.item.Path.Wildcards()) == 0 || r.item.PathHolds(v) { // otherwise wildcards in overrides have no value
			c.override(now, v)
		}
		c.numbersFor(call, data)
		found = append(found, c)
	}
	return found
}

// fill sets the key and reports whether it is complete. The value of a wildcard may be given by its name.
func (c *Considered) fill(x *index.Index, call *penstock.Call, v *index.Values) bool {
	for _, part := range c.Rule.item.Key {
		value, there := x.KeyValue(part, v)
		if _, isWildcard := c.Rule.item.Path.Wildcard(part.Name); isWildcard {
			if given, ok := call.Attribute(part.Name); ok {
				value, there = given, true
			}
		}
		if !there && !part.Optional {
			return false
		}
		c.Key = append(c.Key, penstock.Attribute{Name: part.Name, Value: value})
	}
	return true
}

// override applies the first override that holds.
func (c *Considered) override(now penstock.Instant, v *index.Values) {
	for i := range c.Rule.Overrides {
		o := &c.Rule.Overrides[i]
		if expired(o.Expires, now) {
			continue
		}
		if unmet, _ := o.item.Unmet(v); unmet != "" {
			continue
		}
		if reason, _ := c.unmetWhen(&o.item.Conditions, o.onError, fmt.Sprintf("override %d: ", i), v); reason == "" {
			c.Override, c.Limits, c.Unlimited = i, o.Limits, o.Unlimited
			return
		}
	}
}

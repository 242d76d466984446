package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A KeyedMatcher is a Matcher that knows which of its rules keep state of a client, as [Snapshot.Keyed] says.
type KeyedMatcher interface {
	Keyed(call *penstock.Call) []Considered
}

// Keyed returns the rules that keep state of a caller with these attributes, whatever else they ask
// of a call: those whose key the attributes fill, wildcards of the rule's path by their names or by
// a path. A call without a domain is of every domain. The limits are those after overrides, as far
// as the attributes tell. It is for people who look after callers, not for every call. A Matcher that is
// a [KeyedMatcher] answers for its rules.
func (s *Snapshot) Keyed(call *penstock.Call, now penstock.Instant) []Considered {
	if m, ok := s.Matcher.(KeyedMatcher); ok {
		return m.Keyed(call)
	}
	v := s.index.Values(call)
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
		if len(r.item.Path.Wildcards()) == 0 || r.item.PathHolds(v) { // or wildcards in overrides stand for nothing
			c.override(now, v)
		}
		found = append(found, c)
	}
	return found
}

// fill sets the key; false if something is missing. What a wildcard stands for may be given by its name.
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

// override applies the first that holds.
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

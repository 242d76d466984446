package rules

import (
	"fmt"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// A KeyedMatcher is a Matcher that knows which of its rules keep state for a client. See [Snapshot.Keyed].
type KeyedMatcher interface {
	Keyed(call *penstock.Call) []RuleExplanation
}

// Keyed returns the rules that keep state for a client with these attributes, whatever their other conditions. A
// rule is included if the attributes fill its key. Wildcards of the rule's path are given by name or by a path. A
// call without a domain covers every domain. The limits are those after overrides, as far as the attributes
// determine them. Keyed is for operators, not for every request. A Matcher that is a [KeyedMatcher] answers for
// its own rules. Numbers of limits are looked up in entitlements, which may be nil.
func (s *Snapshot) Keyed(call *penstock.Call, now penstock.Instant, entitlements Entitlements) []RuleExplanation {
	return s.keyed(call, now, entitlements, func(*RuleExplanation) bool { return false })
}

// Concerning returns the rules whose key, numbers or overrides read one of the attributes of a client, with the limits
// that the attributes determine. Unlike [Snapshot.Keyed] it includes rules whose key needs further attributes: those
// parts of the key are empty.
func (s *Snapshot) Concerning(call *penstock.Call, now penstock.Instant, entitlements Entitlements) []RuleExplanation {
	concerns := func(c *RuleExplanation) bool {
		names := c.Rule.clientAttributes()
		return slices.ContainsFunc(call.Attributes, func(a penstock.Attribute) bool { return slices.Contains(names, a.Name) })
	}
	return slices.DeleteFunc(s.keyed(call, now, entitlements, concerns), func(c RuleExplanation) bool { return !concerns(&c) })
}

func (s *Snapshot) keyed(call *penstock.Call, now penstock.Instant, entitlements Entitlements, incomplete func(*RuleExplanation) bool) []RuleExplanation {
	if m, ok := s.Matcher.(KeyedMatcher); ok {
		return m.Keyed(call)
	}
	v, data := s.index.Values(call), dataAt(entitlements, now)
	var found []RuleExplanation
	for i := range s.all {
		r := &s.all[i]
		if r.Mode == Off || expired(r.Expires, now) || call.Domain != "" && call.Domain != r.Domain() {
			continue
		}
		v.Consider(r.item)
		v.SetDomain(r.Domain())
		c := RuleExplanation{Rule: r, Matches: true, Override: NoOverride, Limits: r.Limits}
		if !c.fill(s.index, call, v) && !incomplete(&c) {
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

// fill sets the key, with empty values for missing ones, and reports whether it is complete. The value of a wildcard
// may be given by its name.
func (c *RuleExplanation) fill(x *index.Index, call *penstock.Call, v *index.Values) (complete bool) {
	complete = true
	for _, part := range c.Rule.item.Key {
		value, there := x.KeyValue(part, v)
		if _, isWildcard := c.Rule.item.Path.Wildcard(part.Name); isWildcard {
			if given, ok := call.Attribute(part.Name); ok {
				value, there = given, true
			}
		}
		complete = complete && (there || part.Optional)
		c.Key = append(c.Key, penstock.Attribute{Name: part.Name, Value: value})
	}
	return complete
}

// override applies the first override that holds.
func (c *RuleExplanation) override(now penstock.Instant, v *index.Values) {
	defer v.ConsiderOverride(nil)
	for i := range c.Rule.Overrides {
		o := &c.Rule.Overrides[i]
		v.ConsiderOverride(o.item)
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

package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
)

// Keyed returns the rules that keep state of a caller with these attributes, whatever else they ask
// of a call: those whose key the attributes fill, wildcards of the rule's path by their names or by
// a path. A call without a domain is of every domain. The limits are those after overrides, as far
// as the attributes tell. It is for people who look after callers, not for every call. Rules that a
// Matcher finds are not among them.
func (s *Snapshot) Keyed(call *penstock.Call, now penstock.Instant) []Considered {
	var v callValues
	v.lay(call, s.index.slots)
	var found []Considered
	for i := range s.index.all {
		r := &s.index.all[i]
		if r.Mode == Off || expired(r.Expires, now) || call.Domain != "" && call.Domain != r.Domain() {
			continue
		}
		v.rule = r
		v.values[domainSlot].text = r.Domain()
		c := Considered{Rule: r, Matches: true, Override: NoOverride, Limits: r.Limits}
		if !c.fill(s.index, &v) {
			continue
		}
		if len(r.conditions.path.wildcards()) == 0 || r.conditions.pathHolds(&v) { // or wildcards in overrides stand for nothing
			c.override(now, &v)
		}
		found = append(found, c)
	}
	return found
}

// fill sets the key; false if something is missing.
func (c *Considered) fill(x *index, v *callValues) bool {
	p := &c.Rule.conditions.path
	for _, part := range c.Rule.Key {
		k := keyCheck(part, *p, x.slots)
		var value string
		var there bool
		switch k.kind {
		case isSegment, isRemains:
			if value, there = v.call.Attribute(part.Name); !there && v.path().there && c.Rule.conditions.pathHolds(v) {
				value, there = v.part(k), true
			}
		default:
			value, there = v.part(k), v.values[k.at].there
		}
		if !there && !part.Optional {
			return false
		}
		c.Key = append(c.Key, penstock.Attribute{Name: part.Name, Value: value})
	}
	return true
}

// override applies the first that holds.
func (c *Considered) override(now penstock.Instant, v *callValues) {
	for i := range c.Rule.Overrides {
		o := &c.Rule.Overrides[i]
		if expired(o.Expires, now) {
			continue
		}
		reason, _ := o.conditions.unfit(v)
		if reason == "" {
			reason, _ = c.unmetWhen(&o.conditions, fmt.Sprintf("override %d: ", i), v)
		}
		if reason == "" {
			c.Override, c.Limits, c.Unlimited = i, o.Limits, o.Unlimited
			return
		}
	}
}

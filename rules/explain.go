package rules

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
)

// An Explanation says what every rule makes of a call, and why.
type Explanation struct {
	// Denied and Allowed say that a list decides, by its Entry, counted from 0. No rule applies
	// then, and Rules tells what would have been.
	Denied, Allowed bool
	Entry           int

	Rules []Considered // all, in the document's order
}

// A Considered is what one rule makes of a call.
type Considered struct {
	Rule    *Rule
	Matches bool

	// Of a rule that does not match: the first thing that stands in the way, and the same in
	// words.
	Reason Reason
	Why    string

	// Of a rule that matches: the key with the call's values, and the limits after overrides.
	Key       []penstock.Attribute
	Override  int // NoOverride: the limits are the rule's own
	Limits    []*algorithm.Meter
	Unlimited bool

	Failures []string // expressions that could not be evaluated, and what follows
	Refuses  bool     // the call, because of one of them
}

// A Reason is what keeps a rule from matching a call.
type Reason string

const (
	RuleOff       Reason = "off"
	RuleExpired   Reason = "expired"
	WrongDomain   Reason = "domain"
	WrongMethod   Reason = "method"
	WrongPath     Reason = "path"
	WrongValue    Reason = "attribute"
	KeyIncomplete Reason = "key"
	WhenFalse     Reason = "when"
	WhenFailed    Reason = "when_failed" // the expression could not be evaluated
)

// Explain tells what Match finds, and why it does not find the others. It looks at every rule:
// it is for people, not for every call.
func (s *Snapshot) Explain(call *penstock.Call, now penstock.Instant) *Explanation {
	return s.index.explain(call, now)
}

func (x *index) explain(call *penstock.Call, now penstock.Instant) *Explanation {
	var v callValues
	v.lay(call, x.slots)
	e := &Explanation{Rules: make([]Considered, 0, len(x.all))}
	if e.Denied = e.consult(&x.deny, &v); !e.Denied {
		e.Allowed = e.consult(&x.allow, &v)
	}
	for i := range x.all {
		r := &x.all[i]
		e.Rules = append(e.Rules, x.consider(r, now, &v))
	}
	return e
}

// consult looks for the first entry of a list that holds.
func (e *Explanation) consult(l *list, v *callValues) bool {
	for i := range l.entries {
		k := &l.entries[i].conditions
		reason, _ := k.unfit(v)
		if reason == "" {
			reason, _ = new(Considered).unmetWhen(k, "", v)
		}
		if reason == "" {
			e.Entry = i
			return true
		}
	}
	return false
}

func (x *index) consider(r *Rule, now penstock.Instant, v *callValues) Considered {
	v.rule = r
	c := Considered{Rule: r, Override: NoOverride}
	if c.Reason, c.Why = x.obstacle(r, now, v); c.Reason == "" {
		c.Reason, c.Why = c.unmetWhen(&r.conditions, "", v)
	}
	if c.Reason != "" {
		return c
	}
	c.Matches, c.Limits = true, r.Limits
	for _, part := range r.Key {
		k := keyCheck(part, r.conditions.path, x.slots)
		c.Key = append(c.Key, penstock.Attribute{Name: part.Name, Value: v.part(k)})
	}
	c.override(now, v)
	return c
}

// obstacle returns the first thing that keeps a rule from matching, except its expression; "" if
// nothing does.
func (x *index) obstacle(r *Rule, now penstock.Instant, v *callValues) (Reason, string) {
	if r.Mode == Off {
		return RuleOff, "the rule's mode is off"
	}
	if expired(r.Expires, now) {
		return RuleExpired, fmt.Sprintf("the rule expired at %v", penstock.InstantOf(r.Expires).Time().Format("2006-01-02T15:04:05Z"))
	}
	if reason, why := r.conditions.unfit(v); reason != "" {
		return reason, why
	}
	for _, part := range r.Key {
		if k := keyCheck(part, r.conditions.path, x.slots); k.kind == isThere && !v.values[k.at].there {
			return KeyIncomplete, fmt.Sprintf("the call lacks %s, which is part of the rule's key; %s? would treat it as empty", part.Name, part.Name)
		}
	}
	return "", ""
}

// unfit returns the first condition that does not hold, except the expression; "" if all do.
func (c *conditions) unfit(v *callValues) (Reason, string) {
	switch {
	case !c.domainHolds(v):
		return WrongDomain, fmt.Sprintf("the domain is %s, not %q", shown(&v.values[domainSlot]), c.domain)
	case !c.methodHolds(v):
		return WrongMethod, fmt.Sprintf("the method is %s, not %s", shown(&v.values[methodSlot]), strings.Join(c.methods, " or "))
	case !c.pathHolds(v):
		return WrongPath, fmt.Sprintf("the path is %s, which does not fit %s", shown(&v.values[c.pathSlot]), c.path.text)
	}
	for i := range c.attributes {
		if a := &c.attributes[i]; !a.holds(&v.values[a.slot]) {
			return WrongValue, fmt.Sprintf("%s is %s, not %s", a.name, shown(&v.values[a.slot]), a.wanted())
		}
	}
	return "", ""
}

// unmetWhen says why the expression of a rule, or of an override, does not hold; "" if it does. It
// notes one that fails.
func (c *Considered) unmetWhen(k *conditions, override string, v *callValues) (Reason, string) {
	if k.when == nil {
		return "", ""
	}
	holds, err := k.when.holds(v)
	switch {
	case err == nil && holds:
		return "", ""
	case err == nil:
		return WhenFalse, fmt.Sprintf("the expression %s is false", k.when.text)
	}
	consequence := [...]string{ErrorMatches: "counts as true", ErrorSkips: "does not hold", ErrorDenies: "denies the request"}[k.onError]
	why := fmt.Sprintf("%sthe expression %s failed, so it %s: %v", override, k.when.text, consequence, err)
	if k.onError == ErrorSkips && override == "" {
		return WhenFailed, why
	}
	c.Failures = append(c.Failures, why)
	c.Refuses = c.Refuses || k.onError == ErrorDenies && c.Rule.Mode != Shadow
	if k.onError == ErrorSkips {
		return WhenFailed, why
	}
	return "", ""
}

// Bounds of what an explanation repeats.
const (
	maxShownValue    = 128
	maxShownPatterns = 8
)

func shown(v *value) string {
	switch {
	case !v.there:
		return "missing"
	case len(v.text) > maxShownValue:
		return fmt.Sprintf("%q…", strings.ToValidUTF8(v.text[:maxShownValue], ""))
	}
	return fmt.Sprintf("%q", v.text)
}

// wanted lists the patterns, the first few if there are many.
func (a *attributeCondition) wanted() string {
	var b strings.Builder
	for i := range a.patterns {
		if i == maxShownPatterns {
			fmt.Fprintf(&b, " or %d others", len(a.patterns)-i)
			break
		}
		if i > 0 {
			b.WriteString(" or ")
		}
		fmt.Fprintf(&b, "%q", a.patterns[i].text)
	}
	return b.String()
}

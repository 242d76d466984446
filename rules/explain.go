package rules

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules/internal/index"
)

// An Explanation says how every rule treats a request, and why.
type Explanation struct {
	// Denied and Allowed say that a list decides, by its Entry, counted from 0. Then no rule applies, and Rules says
	// what would have applied.
	Denied, Allowed bool
	Entry           int

	Rules []RuleExplanation // all, in the document's order
}

// A RuleExplanation is how one rule treats a request.
type RuleExplanation struct {
	Rule    *Rule
	Matches bool

	// For a rule that does not match: the first condition that fails, as a code and in words.
	Reason Reason
	Why    string

	// For a rule that matches: the key with the request's values, and the limits after overrides.
	Key       []penstock.Attribute
	Override  int // NoOverride: the limits are the rule's own
	Limits    []*algorithm.Meter
	Numbers   []Number // of the limits
	Unlimited bool

	Failures []string // expressions that could not be evaluated, and the consequence
	Refuses  bool     // the rule denies the request because one of them failed
}

// A Reason is why a rule does not match a request.
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

// Explain returns what Match finds, and why the other rules do not match. It checks every rule, so it is for
// people, not for every request. Numbers of limits are looked up in entitlements, which may be nil.
func (s *Snapshot) Explain(call *penstock.Call, now penstock.Instant, entitlements Entitlements) *Explanation {
	v := s.index.Values(call)
	data := dataAt(entitlements, now)
	e := &Explanation{Rules: make([]RuleExplanation, 0, len(s.all))}
	if e.Denied = e.firstMatch(s.deny, ErrorMatches, v); !e.Denied {
		e.Allowed = e.firstMatch(s.allow, ErrorSkips, v)
	}
	for i := range s.all {
		c := s.consider(&s.all[i], now, v)
		if c.Matches {
			c.numbersFor(call, data)
		}
		e.Rules = append(e.Rules, c)
	}
	return e
}

// firstMatch finds the first entry of a list that holds.
func (e *Explanation) firstMatch(list []index.Conditions, onError OnError, v *index.Values) bool {
	for i := range list {
		unmet, _ := list[i].Unmet(v)
		if unmet != "" {
			continue
		}
		if reason, _ := new(RuleExplanation).unmetWhen(&list[i], onError, "", v); reason == "" {
			e.Entry = i
			return true
		}
	}
	return false
}

func (s *Snapshot) consider(r *Rule, now penstock.Instant, v *index.Values) RuleExplanation {
	v.Consider(r.item)
	c := RuleExplanation{Rule: r, Override: NoOverride}
	if c.Reason, c.Why = s.firstUnmet(r, now, v); c.Reason == "" {
		c.Reason, c.Why = c.unmetWhen(&r.item.Conditions, r.onError, "", v)
	}
	if c.Reason != "" {
		return c
	}
	c.Matches, c.Limits = true, r.Limits
	for _, part := range r.item.Key {
		value, _ := s.index.KeyValue(part, v)
		c.Key = append(c.Key, penstock.Attribute{Name: part.Name, Value: value})
	}
	c.override(now, v)
	return c
}

// firstUnmet returns the first condition, except the expression, that keeps a rule from matching, or "" if there is
// none.
func (s *Snapshot) firstUnmet(r *Rule, now penstock.Instant, v *index.Values) (Reason, string) {
	if r.Mode == Off {
		return RuleOff, "the rule's mode is off"
	}
	if expired(r.Expires, now) {
		return RuleExpired, fmt.Sprintf("the rule expired at %v", penstock.InstantOf(r.Expires).Time().Format("2006-01-02T15:04:05Z"))
	}
	if unmet, why := r.item.Unmet(v); unmet != "" {
		return Reason(unmet), why
	}
	for _, part := range r.item.Key {
		if _, there := s.index.KeyValue(part, v); !there && !part.Optional {
			return KeyIncomplete, fmt.Sprintf("the call lacks %s, which is part of the rule's key, so the rule does not limit it; write %s? to count it as empty", part.Name, part.Name)
		}
	}
	return "", ""
}

// unmetWhen returns why the expression of a rule or an override does not hold, or "" if it does. It records an
// expression that fails.
func (c *RuleExplanation) unmetWhen(k *index.Conditions, onError OnError, override string, v *index.Values) (Reason, string) {
	if k.When == nil {
		return "", ""
	}
	holds, err := v.Evaluate(k.When)
	switch {
	case err == nil && holds:
		return "", ""
	case err == nil:
		return WhenFalse, fmt.Sprintf("the expression %s is false", k.When.Text)
	}
	consequence := [...]string{ErrorMatches: "counts as true", ErrorSkips: "does not hold", ErrorDenies: "denies the request"}[onError]
	why := fmt.Sprintf("%sthe expression %s failed, so it %s: %v", override, k.When.Text, consequence, err)
	if onError == ErrorSkips && override == "" {
		return WhenFailed, why
	}
	c.Failures = append(c.Failures, why)
	c.Refuses = c.Refuses || onError == ErrorDenies && c.Rule.Mode != Shadow
	if onError == ErrorSkips {
		return WhenFailed, why
	}
	return "", ""
}

// expired reports whether end has passed. The zero time means never.
func expired(end time.Time, now penstock.Instant) bool {
	return !end.IsZero() && now >= penstock.InstantOf(end)
}

package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// naive decides requests by the plain meaning of the rules' text: it checks every rule, one after the other,
// and keeps every state in a map. It knows neither tickets nor guards.
type naive struct {
	rules  *rules.Snapshot
	terms  []rules.RuleTerms // the rules as they are written
	states map[string]algorithm.State
}

// A naiveLimit is one limit that a request is charged under.
type naiveLimit struct {
	rule   *rules.Rule
	policy string
	meter  *algorithm.Meter
	cost   int64
	place  string // of its state

	state  algorithm.State
	passes bool
}

func (n *naive) decide(c *penstock.Call, now penstock.Instant) (v penstock.Verdict) {
	v = penstock.Verdict{Now: now, RulesVersion: n.rules.Version}
	explained := n.rules.Explain(c, now, nil)
	switch {
	case explained.Denied:
		v.Reason, v.Decision.RetryAfter = penstock.ReasonDenyList, penstock.Never
		return v
	case explained.Allowed:
		v.Allowed, v.Reason = true, penstock.ReasonAllowList
		return v
	}
	var live []naiveLimit
	var shadows [][]naiveLimit
	byRule := map[*rules.Rule][]penstock.LimitVerdict{}
	for i := range explained.Rules {
		limits := n.limits(&explained.Rules[i], c)
		if explained.Rules[i].Rule.Mode == rules.Shadow {
			shadows = append(shadows, limits)
		} else {
			live = append(live, limits...)
		}
	}
	v.Allowed = n.charge(live, c, now, byRule)
	for _, limits := range shadows {
		n.charge(limits, c, now, byRule)
	}
	for _, r := range n.rules.Rules {
		v.Limits = append(v.Limits, byRule[r]...)
	}
	v.Reason = penstock.ReasonNoRule
	if len(live) > 0 {
		naiveReason(&v)
	}
	return v
}

// limits returns what a rule charges a request.
func (n *naive) limits(r *rules.RuleExplanation, c *penstock.Call) (limits []naiveLimit) {
	if !r.Matches || r.Unlimited {
		return nil
	}
	policies := r.Rule.Policies
	if r.Override != rules.NoOverride {
		policies = r.Rule.Overrides[r.Override].Policies
	}
	for i, m := range r.Limits {
		l := m.Limit()
		place := fmt.Sprintf("%s %q %s: %v %v %v %v %d", r.Rule.Name, r.Key, n.counters(r), l.Algorithm, l.Window, l.Period, l.Refill, l.Ordinal)
		limits = append(limits, naiveLimit{rule: r.Rule, policy: policies[i], meter: m, cost: naiveCost(&r.Rule.Cost, c), place: place})
	}
	return limits
}

// counters returns whose counters hold for a request: the rule's own, or those of an override whose match
// reads attributes that are not in the rule's key.
func (n *naive) counters(r *rules.RuleExplanation) string {
	t := &n.terms[r.Rule.Index]
	if r.Override == rules.NoOverride {
		return ""
	}
	match := &t.Overrides[r.Override].Match
	reads := slices.Collect(maps.Keys(match.Attributes))
	if match.Path != "" {
		reads = append(reads, "path")
	}
	reads = append(reads, naiveReads[match.When]...)
	for _, name := range reads {
		if !slices.ContainsFunc(t.Key, func(part rules.KeyPart) bool { return part.Name == name }) {
			return fmt.Sprintf("%+v", *match)
		}
	}
	return ""
}

// naiveReads are the attributes that the expressions of overrides read.
var naiveReads = map[string][]string{
	"":                                nil,
	`user == "b"`:                     {"user"},
	`user in ["a", "b"] || plan > ""`: {"user", "plan"},
}

// naiveCosts are the costs of the texts under {attribute: tokens, default: 2, max: 5}.
var naiveCosts = map[string]int64{"": 2, "x": 2, "-1": 2, "0": 1, "1": 1, "4": 4, "6": 5, "99999999999999999999": 5}

func naiveCost(cost *rules.Cost, c *penstock.Call) int64 {
	if c.Cost == 0 {
		return 0
	}
	if cost.Fixed != 0 {
		return cost.Fixed
	}
	if cost.Attribute != "" {
		text, _ := c.Attribute(cost.Attribute)
		return naiveCosts[text]
	}
	return c.Cost
}

// charge charges all or nothing.
func (n *naive) charge(limits []naiveLimit, c *penstock.Call, now penstock.Instant, out map[*rules.Rule][]penstock.LimitVerdict) (all bool) {
	all = true
	for i := range limits {
		l := &limits[i]
		l.state, l.passes, _ = l.meter.Weigh(n.states[l.place], now, l.cost, c.MaxDelay)
		all = all && l.passes
	}
	for i := range limits {
		l := &limits[i]
		if all {
			l.state = l.meter.Charge(l.state, l.cost)
		} else if l.meter.CountDenied && l.meter.CanEver(l.cost) && l.cost > 0 {
			l.state = l.meter.ChargeDenied(l.state, l.cost)
		}
		n.states[l.place] = l.state
		d := l.meter.Report(now, algorithm.Result{State: l.state, Cost: l.cost, Passes: l.passes, Taken: all, MaxDelay: c.MaxDelay})
		if l.meter.Kind == algorithm.KindLeaky && !l.passes && l.cost <= d.Remaining {
			d.Remaining = 0 // it cannot wait
		}
		out[l.rule] = append(out[l.rule], penstock.LimitVerdict{
			Rule: l.rule.Name, Policy: l.policy, Shadow: l.rule.Mode == rules.Shadow,
			Algorithm: l.meter.Algorithm(), Refill: l.meter.Limit().Refill, Count: l.meter.Limit().Count, Window: l.meter.Limit().Window,
			Decision: d,
		})
	}
	return all
}

// naiveReason finds the limit that the verdict is about: the first that none is stricter than.
func naiveReason(v *penstock.Verdict) {
	wait := func(l *penstock.LimitVerdict) float64 {
		if l.RetryAfter == penstock.Never {
			return 1e30
		}
		return float64(l.RetryAfter)
	}
	var told *penstock.LimitVerdict
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Shadow || !v.Allowed && l.Allowed {
			continue
		}
		v.Delay = max(v.Delay, l.Delay)
		if told == nil || v.Allowed && l.Remaining < told.Remaining || !v.Allowed && wait(l) > wait(told) {
			told = l
		}
	}
	v.Rule, v.Decision = told.Rule, told.Decision
	if v.Reason = penstock.ReasonOK; !v.Allowed {
		v.Reason = penstock.ReasonOverLimit
	}
}

// A trial is rules and requests. The second half of the requests is decided by the rules with their overrides
// in another order.
type trial struct {
	text, moved string
	calls       []trialCall
}

type trialCall struct {
	after penstock.Instant // the one before, in µs
	call  penstock.Call
}

func (t trial) String() string {
	var b strings.Builder
	b.WriteString(t.text + "then\n" + t.moved)
	for _, c := range t.calls {
		fmt.Fprintf(&b, "+%dµs %+v\n", c.after, c.call)
	}
	return b.String()
}

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/rules"
)

// partRule is one that a test matches by itself.
func partRule(s *rules.Snapshot, name string, l penstock.Limit, mode rules.Mode) *rules.Rule {
	r := &rules.Rule{
		Name: name, Index: len(s.Rules), Key: []rules.KeyPart{{Name: "who"}}, Subjects: s.Hasher.Rule("d", name, "who"),
		Limits: []*algorithm.Meter{l.MustCompile()}, Policies: []string{name}, Mode: mode,
	}
	s.Rules = append(s.Rules, r)
	return r
}

// Parts that are alone are charged one after the other, the others together or not at all.
func TestDecideParts(t *testing.T) {
	s := rules.NewSnapshot(rules.Options{Version: 7})
	window := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 2, Window: time.Hour}
	all := window
	all.CountAll = true
	whole, own, tried := partRule(s, "whole", window, rules.Enforce), partRule(s, "own", all, rules.Enforce), partRule(s, "tried", all, rules.Shadow)
	var seen []string
	e := newEngine(t, "", engine.Options{Rules: engine.Fixed(s), Now: scenarioNow, Observe: func(o *engine.Observation) {
		if o.Rules != s || len(o.Matched) > 1 || len(o.Matched) == 1 && o.Matched[0].Key[0] != "u" {
			t.Errorf("observed %+v", o)
		}
		seen = append(seen, fmt.Sprint(o.Verdict.Allowed, " ", o.Verdict.Reason))
	}})
	part := func(r *rules.Rule, cost int64, alone bool) engine.Part {
		return engine.Part{Call: penstock.Call{Domain: "d", Cost: cost}, Rule: r, Key: []string{"u"}, Alone: alone, Verdict: new(penstock.Verdict)}
	}
	for i, step := range []struct {
		parts []engine.Part
		want  string // for each part: whether it is allowed, and what its limit has counted
	}{
		{[]engine.Part{part(own, 1, true)}, "true 1"},
		{[]engine.Part{part(own, 1, true), part(own, 1, true)}, "true 2, false 3"}, // not added up
		{[]engine.Part{part(own, 1, true), part(whole, 1, false)}, "false 4, true 1"},
		{[]engine.Part{part(whole, 1, false), part(whole, 1, true)}, "true 2, false 2"},
		{[]engine.Part{part(whole, 1, false), part(nil, 1, false), part(tried, 3, true)}, "false 2, true -, true 3"},
		{[]engine.Part{part(nil, 1, false)}, "true -"},
	} {
		seen = nil
		e.DecideParts(t.Context(), s, step.parts)
		got := ""
		for k, p := range step.parts {
			used := "-"
			if len(p.Verdict.Limits) > 0 {
				used = fmt.Sprint(p.Verdict.Limits[0].Used)
			}
			if k > 0 {
				got += ", "
			}
			got += fmt.Sprint(p.Verdict.Allowed, " ", used)
			if p.Err != nil || p.Verdict.RulesVersion != 7 || p.Verdict.Quality != penstock.QualityExact {
				t.Errorf("step %d, part %d: %v, %+v", i, k, p.Err, p.Verdict)
			}
			if want := fmt.Sprint(p.Verdict.Allowed, " ", p.Verdict.Reason); k >= len(seen) || seen[k] != want {
				t.Errorf("step %d, part %d: observed %v, want %s", i, k, seen, want)
			}
		}
		if got != step.want || len(seen) != len(step.parts) {
			t.Errorf("step %d: %s, want %s; observed %d", i, got, step.want, len(seen))
		}
	}
}

func scenarioNow() penstock.Instant { return penstock.InstantOf(time.Unix(1_700_000_000, 0)) }

func TestDecidePartsAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	s := rules.NewSnapshot(rules.Options{})
	limit := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000, Window: time.Hour, CountAll: true}
	parts := []engine.Part{{
		Call: penstock.Call{Domain: "d", Cost: 1}, Rule: partRule(s, "one", limit, rules.Enforce), Key: []string{"u"}, Alone: true, Verdict: new(penstock.Verdict),
	}}
	e := newEngine(t, "", engine.Options{Rules: engine.Fixed(s)})
	decide := func() { e.DecideParts(t.Context(), s, parts) }
	decide()
	if got := testing.AllocsPerRun(100, decide); got != 0 || parts[0].Verdict.Reason != penstock.ReasonOK {
		t.Errorf("%v allocations, %+v", got, parts[0].Verdict)
	}
}

// The verdict of another request does not affect a part.
func TestPartsAfterCalls(t *testing.T) {
	e := newEngine(t, `
rules: [{name: one, key: [user], limits: [1/1d]}]
lists: {deny: [{user: evil}], allow: [{user: good}]}
`, engine.Options{})
	s := rules.NewSnapshot(rules.Options{})
	r := partRule(s, "own", penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1000, Window: time.Hour}, rules.Enforce)
	for _, user := range []string{"evil", "good", "u"} {
		for range 100 {
			var v penstock.Verdict
			if err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("user", user)}, &v); err != nil {
				t.Fatal(err)
			}
			part := []engine.Part{{Call: penstock.Call{Cost: 1}, Rule: r, Key: []string{"u"}, Verdict: &v}}
			if e.DecideParts(t.Context(), s, part); !v.Allowed || v.Rule != "own" || v.Reason != penstock.ReasonOK {
				t.Fatalf("after %s: %+v", user, v)
			}
		}
	}
}

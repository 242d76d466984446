package engine_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

var (
	trialLimits = []string{
		"{rate: 3/1m, algorithm: fixed_window}", "{rate: 0/1m, algorithm: fixed_window}", "{rate: 5/1h, algorithm: fixed_window}", "{rate: 20/day, algorithm: fixed_window}",
		"4/1m", "6/1s", "{rate: 5/10s, burst: 7, algorithm: token_bucket}", "{rate: 2/10s, burst: 4, refill: interval, algorithm: token_bucket}",
		"{rate: 6/1m, queue: 3, algorithm: leaky_bucket}",
	}
	trialMatches   = []string{"", "match: {attributes: {user: [a, b]}}", "match: {attributes: {plan: gold}}", "match: {path: '/x/{id}'}", "match: {domain: other}"}
	trialKeys      = []string{"[]", "[user]", "[user, plan?]", "[plan]"}
	trialCosts     = []string{"", "cost: 2", "cost: {attribute: tokens, default: 2, max: 5}"}
	trialModes     = []string{"", "", "mode: shadow", "mode: 'off'", "count_denied: true", "mode: shadow, count_denied: true", "expires_at: 2027-01-15T08:01:00Z"}
	trialOverrides = []string{
		"{match: {attributes: {plan: gold}}, limits: unlimited}",
		"{match: {attributes: {user: a}}, limits: LIMITS, expires_at: 2027-01-15T08:01:00Z}",
		"{match: {attributes: {user: a}}, limits: LIMITS}",
		"{match: {attributes: {plan: gold}}, limits: LIMITS}",
		"{match: {attributes: {user: [a, b], plan: free}}, limits: LIMITS}",
		"{match: {path: '/x/{any}'}, limits: LIMITS}",
		"{match: {when: 'user == \"b\"'}, limits: LIMITS}",
		"{match: {when: 'user in [\"a\", \"b\"] || plan > \"\"'}, limits: LIMITS}",
		"{match: {}, limits: LIMITS}",
	}
	trialLists  = []string{"", "", "", "lists: {deny: [{user: c}], allow: [{user: [c, b], plan: gold}]}"}
	trialTokens = slices.Sorted(maps.Keys(naiveCosts))
)

// trials draws rules, as text, and requests.
var trials = rapid.Custom(func(t *rapid.T) trial {
	var b, moved strings.Builder
	write := func(text string) { b.WriteString(text); moved.WriteString(text) }
	write("attributes: {user: {header: U}, plan: {header: P}, tokens: {header: T}}\nrules:\n")
	pick := func(from []string, what string) string { return rapid.SampledFrom(from).Draw(t, what) }
	limits := func() string {
		return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(trialLimits), 1, 3, rapid.ID).Draw(t, "limits"), ", ")
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "rules") {
		mode, own := pick(trialModes, "mode"), limits()
		if strings.Contains(mode, "count_denied") { // which needs a window
			own = "{rate: 2/1m, algorithm: fixed_window}, 3/1h"
		}
		parts := []string{fmt.Sprintf("name: rule-%d", i), "key: " + pick(trialKeys, "key"), "limits: [" + own + "]"}
		for _, part := range []string{pick(trialMatches, "match"), pick(trialCosts, "cost"), mode} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		overrides := rapid.SliceOfNDistinct(rapid.SampledFrom(trialOverrides), 0, 3, rapid.ID).Draw(t, "overrides")
		for k, o := range overrides {
			overrides[k] = strings.ReplaceAll(o, "LIMITS", "["+limits()+"]")
		}
		if len(overrides) > 0 {
			parts = append(parts, "overrides: [OVERRIDES]")
		}
		rule := fmt.Sprintf("  - {%s}\n", strings.Join(parts, ", "))
		b.WriteString(strings.Replace(rule, "OVERRIDES", strings.Join(overrides, ", "), 1))
		slices.Reverse(overrides)
		moved.WriteString(strings.Replace(rule, "OVERRIDES", strings.Join(overrides, ", "), 1))
	}
	write(pick(trialLists, "lists") + "\n")
	return trial{b.String(), moved.String(), rapid.SliceOfN(trialCalls, 10, 40).Draw(t, "calls")}
})

var trialCalls = rapid.Custom(func(t *rapid.T) (c trialCall) {
	c.after = rapid.SampledFrom([]penstock.Instant{0, 0, 1, 999_999, 1_000_000, 7_000_000, 30_000_000, 600_000_000}).Draw(t, "after")
	c.call.Domain = rapid.SampledFrom([]string{"", "", "", "other"}).Draw(t, "domain")
	c.call.Cost = rapid.SampledFrom([]int64{1, 1, 1, 0, 2, 4, 8}).Draw(t, "cost")
	c.call.MaxDelay = rapid.SampledFrom([]time.Duration{0, 5 * time.Second, time.Hour}).Draw(t, "delay")
	maybe := func(name string, values ...string) {
		if rapid.IntRange(0, 4).Draw(t, "has "+name) > 0 {
			c.call.Attributes = append(c.call.Attributes, penstock.Attribute{Name: name, Value: rapid.SampledFrom(values).Draw(t, name)})
		}
	}
	maybe("user", "a", "b", "c")
	maybe("plan", "gold", "free")
	maybe("path", "/x/1", "/y")
	maybe("tokens", trialTokens...)
	return c
})

// disagreement returns where an engine and the naive evaluation differ; "" if they agree.
func disagreement(t *testing.T, trial trial, s sabotage) string {
	stand := newTestEngine()
	n := naive{states: map[string]algorithm.State{}}
	load := func(text string) {
		n.rules, n.terms, stand.rules = compile(t, text), terms(t, text), compile(t, text)
		if s.rules != nil {
			s.rules(stand.rules)
		}
	}
	load(trial.text)
	now := beginning
	store := &tamperingStore{newMemory(t), s}
	e := newEngine(t, "", engine.Options{Store: store, Rules: stand, Now: func() penstock.Instant { return now }})
	for i := range trial.calls {
		if i == len(trial.calls)/2 {
			load(trial.moved)
		}
		c := &trial.calls[i]
		now += c.after
		var v penstock.Verdict
		if err := e.Decide(context.Background(), &c.call, &v); err != nil {
			return fmt.Sprintf("call %d: %v", i, err)
		}
		if s.verdict != nil {
			s.verdict(&v)
		}
		// A calendar period has no window of one length.
		if diff := cmp.Diff(n.decide(&c.call, now), v, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(penstock.LimitVerdict{}, "Window")); diff != "" {
			return fmt.Sprintf("call %d (- naive, + engine):\n%s", i, diff)
		}
	}
	return ""
}

func terms(t *testing.T, text string) []rules.RuleTerms {
	doc, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc.Rules
}

func TestEngineAgreesWithNaive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		trial := trials.Draw(rt, "trial")
		if diff := disagreement(t, trial, sabotage{}); diff != "" {
			rt.Fatalf("%v%s", trial, diff)
		}
	})
}

// Each of these must be caught within some trials.
func TestNaiveNotices(t *testing.T) {
	for _, s := range []sabotage{
		{name: "shadow denies", ticket: everyGroup(func(g *storage.Group) { g.Alone = false })},
		{name: "each rule by itself", ticket: everyGroup(func(g *storage.Group) { g.Alone = true })},
		{name: "charges peeks", ticket: everyCharge(func(c *algorithm.Charge) { c.Cost = max(c.Cost, 1) })},
		{name: "never waits", ticket: func(t *storage.Ticket) { t.MaxDelay = 0 }},
		{name: "tells another limit", verdict: func(v *penstock.Verdict) {
			if n := len(v.Limits); n > 1 && !v.Limits[n-1].Shadow {
				v.Decision = v.Limits[n-1].Decision
			}
		}},
		{name: "one counter for a rule and its overrides", rules: scopes(func(int, *rules.Override) uint64 { return 0 })},
		{name: "overrides always have other counters", rules: scopes(func(_ int, o *rules.Override) uint64 { return o.MatchID })},
		{name: "counters named by position", rules: scopes(func(i int, o *rules.Override) uint64 {
			if !o.OwnCounters {
				return 0
			}
			return uint64(i) + 1
		})},
		{name: "one subject for all", ticket: everyGroup(func(g *storage.Group) { clear(g.Subject[4:]) })},
	} {
		t.Run(s.name, func(t *testing.T) {
			for seed := range 200 {
				if disagreement(t, trials.Example(seed), s) != "" {
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}

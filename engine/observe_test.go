package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
)

// recordingObserver collects what an observer sees, as text, because it may keep nothing.
type recordingObserver struct{ seen []string }

func (o *recordingObserver) observe(ob *engine.Observation) {
	line := render(ob.Verdict, ob.Err)
	for _, f := range ob.Failures {
		line += fmt.Sprintf(" failed=%s", f.Rule.Name)
	}
	if ob.Beyond > 0 {
		line += fmt.Sprintf(" beyond=%d", ob.Beyond)
	}
	o.seen = append(o.seen, line)
}

func (o *recordingObserver) check(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(o.seen, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("observed\n%s\nnot\n%s", got, strings.Join(want, "\n"))
	}
	o.seen = nil
}

// decideAll decides requests and ignores their errors, which are observed.
func decideAll(t *testing.T, e *engine.Engine, calls ...penstock.Call) {
	t.Helper()
	for i := range calls {
		var v penstock.Verdict
		_ = e.Decide(t.Context(), &calls[i], &v)
	}
}

// An observer sees each rule's key for the client. For an invalid request it sees nothing, not even of the
// request before.
func TestObserveKeys(t *testing.T) {
	var seen []string
	e := newEngine(t, `rules: [{name: one, key: [user], limits: [1/1h]}]`, engine.Options{Observe: func(o *engine.Observation) {
		line := fmt.Sprint(o.Rules.Version)
		for _, m := range o.Matched {
			line += fmt.Sprintf(" %s=%v", m.Rule.Name, m.Key)
		}
		seen = append(seen, line)
	}})
	decideAll(t, e,
		penstock.Call{Cost: 1, Attributes: attributes("user", "u1")},
		penstock.Call{Cost: -1, Attributes: attributes("user", "u2")},
		penstock.Call{Cost: 1, Attributes: attributes("user", "u3")},
	)
	if got := strings.Join(seen, "; "); got != "1 one=[u1]; 1; 1 one=[u3]" {
		t.Errorf("observed %s", got)
	}
}

func TestObserveEveryVerdict(t *testing.T) {
	var o recordingObserver
	e := newEngine(t, `
rules: [{name: one, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}]
lists: {deny: [{user: mallory}]}
`, engine.Options{Observe: o.observe, Now: func() penstock.Instant { return beginning }})
	decideAll(t, e,
		penstock.Call{Cost: 1},
		penstock.Call{Cost: 1, Attributes: attributes("user", "mallory")},
		penstock.Call{Cost: 1, Attributes: attributes("user", "u")},
		penstock.Call{Cost: 1, Attributes: attributes("user", "u")},
		penstock.Call{Cost: -1},
	)
	o.check(t,
		"allow no_rule",
		"deny deny_list wait=never",
		"allow ok one 1/1",
		"deny over_limit one 1/1 wait=1h0m0s",
		"deny ok error=invalid",
	)
}

const someBroken = `
rules:
  - {name: before, key: [], limits: [{rate: 9/1h, algorithm: fixed_window}, {rate: 99/1d, algorithm: fixed_window}]}
  - {name: broken, key: [], limits: [{rate: 1/1h, algorithm: fixed_window}, {rate: 10/1d, algorithm: fixed_window}]}
  - {name: after,  key: [], limits: [{rate: 2/1h, algorithm: fixed_window}]}
`

// A rule that panics is named and left out, and the others decide as if it did not exist. The second of its
// limits is missing: nothing of the first may stay in the ticket.
func TestRuleThatPanics(t *testing.T) {
	for _, test := range []struct {
		policy string
		want   []string
	}{
		{"deny, mode: shadow", []string{
			"allow ok after 1/2 { before:1h 1/9 before:1d 1/99 after 1/2 } failed=broken",
			"allow ok after 2/2 { before:1h 2/9 before:1d 2/99 after 2/2 } failed=broken",
			"deny over_limit after 2/2 wait=1h0m0s { before:1h 2/9 before:1d 2/99 !after 2/2 } failed=broken",
		}},
		{"local", []string{
			"allow ok after 1/2 { before:1h 1/9 before:1d 1/99 after 1/2 } failed=broken",
			"allow ok after 2/2 { before:1h 2/9 before:1d 2/99 after 2/2 } failed=broken",
			"deny over_limit after 2/2 wait=1h0m0s { before:1h 2/9 before:1d 2/99 !after 2/2 } failed=broken",
		}},
		{"deny", []string{
			"deny store_error closed broken 0/0 failed=broken",
			"deny store_error closed broken 0/0 failed=broken",
			"deny store_error closed broken 0/0 failed=broken",
		}},
	} {
		t.Run(test.policy, func(t *testing.T) {
			s := compile(t, strings.Replace(someBroken, "{name: broken,", "{name: broken, on_store_error: "+test.policy+",", 1))
			s.Rules[1].Limits[1] = nil
			var o recordingObserver
			e := newEngine(t, "", engine.Options{Rules: engine.Fixed(s), Observe: o.observe, Now: func() penstock.Instant { return beginning }})
			decideAll(t, e, penstock.Call{Cost: 1}, penstock.Call{Cost: 1}, penstock.Call{Cost: 1})
			o.check(t, test.want...)
		})
	}
}

// An expression that fails counts as true, unless on_error says otherwise, regardless of the failure policy
// for the store. It never loosens limits. It is reported.
func TestExpressionThatFails(t *testing.T) {
	var o recordingObserver
	e := newEngine(t, `
attributes: {plan: {header: X-Plan}}
rules:
  - {name: numbers, match: {when: int(plan) > 1}, key: [], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: skipped, on_store_error: deny, match: {when: int(plan) > 1, on_error: skip}, key: [], limits: [0/1m]}
  - name: others
    on_store_error: deny
    key: []
    limits: [{rate: 5/1h, algorithm: fixed_window}]
    overrides: [{match: {when: int(plan) > 1}, limits: unlimited}]
  - {name: denies, match: {host: strict, when: int(plan) > 1, on_error: deny}, key: [], limits: [9/1m]}
  - {name: tries, mode: shadow, match: {host: tried, when: int(plan) > 1, on_error: deny}, key: [], limits: [9/1m]}
`, engine.Options{Observe: o.observe, Now: func() penstock.Instant { return beginning }})
	decideAll(t, e,
		penstock.Call{Cost: 1, Attributes: attributes("plan", "free")},
		penstock.Call{Cost: 1, Attributes: attributes("plan", "1")},
		penstock.Call{Cost: 1, Attributes: attributes("plan", "free", "host", "strict")},
		penstock.Call{Cost: 1, Attributes: attributes("plan", "1", "host", "strict")},
		penstock.Call{Cost: 1, Attributes: attributes("plan", "free", "host", "tried")},
		penstock.Call{Cost: 1, Attributes: attributes("plan", "free")},
	)
	const both = " failed=numbers failed=skipped failed=others"
	o.check(t,
		"allow ok numbers 1/2 { numbers 1/2 others 1/5 }"+both,
		"allow ok others 2/5",
		"deny rule_error denies 0/0 wait=never"+both+" failed=denies",
		"allow ok others 3/5",
		"allow ok numbers 2/2 { numbers 2/2 others 4/5 ~tries 1/9 }"+both+" failed=tries",
		"deny over_limit numbers 2/2 wait=1h0m0s { !numbers 2/2 others 4/5 }"+both,
	)
}

// Of more rules than can be charged at once shadow rules are left out first, then the last.
func TestMoreRulesThanGroups(t *testing.T) {
	text := func(shadows, live int) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range shadows {
			fmt.Fprintf(&b, "  - {name: tried-%d, mode: shadow, key: [], limits: [{rate: 9/1h, algorithm: fixed_window}]}\n", i)
		}
		for i := range live {
			fmt.Fprintf(&b, "  - {name: live-%d, key: [], limits: [{rate: %d/1h, algorithm: fixed_window}]}\n", i, 1000-i)
		}
		return b.String()
	}
	for _, test := range []struct {
		shadows, live, told, beyond int
		strictest                   string
	}{
		{0, 64, 64, 0, "live-63"},
		{0, 70, 64, 6, "live-63"},
		{70, 3, 64, 9, "live-2"},
		{60, 70, 64, 66, "live-63"},
	} {
		beyond := 0
		e := newEngine(t, text(test.shadows, test.live), engine.Options{Observe: func(o *engine.Observation) { beyond = o.Beyond }})
		var v penstock.Verdict
		if err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil {
			t.Fatal(err)
		}
		if len(v.Limits) != test.told || beyond != test.beyond || v.Rule != test.strictest {
			t.Errorf("of %d shadow and %d live rules %d were asked, %d left out, and %s is the strictest; want %d, %d, %s",
				test.shadows, test.live, len(v.Limits), beyond, v.Rule, test.told, test.beyond, test.strictest)
		}
	}
}

package engine_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A sabotage makes an engine do one thing wrong, which a scenario must catch.
type sabotage struct {
	scenario, name string

	rules   func(*rules.Snapshot)     // once they are compiled
	ticket  func(*storage.Ticket)     // before the store sees it
	settle  func(*storage.Settlement) // likewise
	verdict func(*penstock.Verdict)   // before the script sees it
	old     string                    // in the rules, as if the engine did not know it
	new     string
}

var sabotages = []sabotage{
	{scenario: "lists", name: "allow beats deny", old: "deny: [{user: [mallory, both]}]", new: "deny: [{user: mallory}]"},
	{scenario: "lists", name: "ignores the allow list", old: "allow: [{user: [admin, both]}]", new: "allow: []"},
	{scenario: "none", name: "shadow denies", ticket: everyGroup(func(g *storage.Group) { g.Alone = false })},
	{scenario: "none", name: "reports a shadow rule", verdict: func(v *penstock.Verdict) {
		if v.Rule == "" && len(v.Limits) > 0 {
			v.Rule, v.Decision = v.Limits[0].Rule, v.Limits[0].Decision
		}
	}},
	{scenario: "overrides", name: "ignores an override", old: "plan: gold", new: "plan: none"},
	{scenario: "overrides", name: "limits the unlimited", old: "limits: unlimited", new: "limits: [1/1s]"},
	{scenario: "overrides", name: "an override forever", old: ", expires_at: 2027-01-15T08:00:10Z", new: ""},
	{scenario: "overrides", name: "one counter for all limits", rules: scopes(func(int, *rules.Override) uint64 { return 0 })},
	{scenario: "overrides", name: "always other counters", rules: scopes(func(_ int, o *rules.Override) uint64 { return o.MatchID })},
	{scenario: "override-counters", name: "one counter for all limits", rules: scopes(func(int, *rules.Override) uint64 { return 0 })},
	{scenario: "override-counters", name: "always other counters", rules: scopes(func(_ int, o *rules.Override) uint64 { return o.MatchID })},
	{scenario: "override-counters", name: "named by position", rules: scopes(func(i int, o *rules.Override) uint64 {
		if !o.OwnCounters {
			return 0
		}
		return uint64(i) + 1
	})},
	{scenario: "changed-overrides", name: "whichever override stands there", rules: everyOverride(func(_ int, o *rules.Override) { o.MatchID = 1 })},
	{scenario: "costs", name: "every call costs 1", ticket: everyCharge(func(c *algorithm.Charge) { c.Cost = min(c.Cost, 1) })},
	{scenario: "costs", name: "charges peeks", ticket: everyCharge(func(c *algorithm.Charge) { c.Cost = max(c.Cost, 1) })},
	{scenario: "costs", name: "no default", old: "default: 2", new: "default: 1"},
	{scenario: "costs", name: "no max", old: "max: 30", new: "max: 60"},
	{scenario: "together", name: "each rule by itself", ticket: everyGroup(func(g *storage.Group) { g.Alone = true })},
	{scenario: "together", name: "only the first limit", ticket: everyGroup(func(g *storage.Group) {
		for i := range g.Charges[1:] {
			g.Charges[i+1].Cost = 0
		}
	})},
	{scenario: "strictest", name: "tells the first", verdict: tells(0)},
	{scenario: "strictest", name: "tells the last", verdict: tells(-1)},
	{scenario: "shadow", name: "shadow denies", ticket: everyGroup(func(g *storage.Group) { g.Alone = false })},
	{scenario: "shadow", name: "shadow does not count", ticket: everyGroup(func(g *storage.Group) {
		for i := range g.Charges {
			if g.Alone {
				g.Charges[i].Cost = 0
			}
		}
	})},
	{scenario: "shadow", name: "shadow bans", old: "{name: tried, mode: shadow,", new: "{name: tried,"},
	{scenario: "shadow", name: "shadow delays", old: "{name: queue, mode: shadow,", new: "{name: queue,"},
	{scenario: "shadow", name: "shadow repeats", old: "{name: repeats, mode: shadow,", new: "{name: repeats,"},
	{scenario: "shadow-places", name: "places are kept", settle: func(s *storage.Settlement) { s.Nonce++ }},
	{scenario: "repeats", name: "forgets calls", ticket: everyGroup(func(g *storage.Group) { g.Call = storage.CallID{} })},
	{scenario: "repeats", name: "the call's id, always", old: ", attribute: order", new: ""},
	{scenario: "repeats", name: "does not say so", verdict: func(v *penstock.Verdict) { v.Duplicate = false }},
	{scenario: "repeats-places", name: "does not name the original", verdict: func(v *penstock.Verdict) { v.OriginalReservation = "" }},
	{scenario: "repeats-places", name: "concludes the original", verdict: func(v *penstock.Verdict) {
		if v.OriginalReservation != "" && v.Reservation != "" {
			v.Reservation = v.OriginalReservation
		}
	}},
	{scenario: "repeats-override", name: "the rule's own budget", old: "rate: 20/1m", new: "rate: 2/1m"},
	{scenario: "repeats-blocked", name: "a budget in any case", ticket: everyGroup(func(g *storage.Group) {
		if terms := g.Dedup.Terms(); terms.Budget == 0 {
			terms.Budget = 1
			g.Dedup, _ = terms.Compile()
		}
	})},
	{scenario: "repeats-response", name: "as cheap as an estimate", ticket: everyGroup(func(g *storage.Group) { g.MaxCost = 0 })},
	{scenario: "repeats-limits", name: "only the smallest limit's budget", ticket: everyGroup(func(g *storage.Group) {
		terms := g.Dedup.Terms()
		terms.Budget, terms.Burst, terms.Beside = terms.Burst, 0, g.Charges[0].Meter.Limit()
		g.Dedup, _ = terms.Compile()
	})},
	{scenario: "bans", name: "bans nobody", ticket: everyGroup(func(g *storage.Group) { g.Penalty = nil })},
	{scenario: "bans", name: "does not say so", verdict: func(v *penstock.Verdict) { v.BannedUntil = 0 }},
	{scenario: "delays", name: "cannot wait", ticket: func(t *storage.Ticket) { t.MaxDelay = 0 }},
	{scenario: "delays", name: "does not say so", verdict: func(v *penstock.Verdict) { v.Delay = 0 }},
	{scenario: "reserve", name: "reserves nothing", ticket: everyGroup(func(g *storage.Group) { g.Reserve = 0 })},
	{scenario: "reserve", name: "reserves forever", ticket: everyGroup(func(g *storage.Group) {
		if g.Reserve != 0 {
			g.Reserve = storage.MaxReserve
		}
	})},
	{scenario: "reserve", name: "settles another cost", settle: settledAt(func(cost int64) int64 { return cost + 1 })},
	{scenario: "overage", name: "denies nothing", settle: func(s *storage.Settlement) { s.Overage = algorithm.OverageAllow }},
	{scenario: "overage", name: "denies all", settle: func(s *storage.Settlement) { s.Overage = algorithm.OverageDeny }},
	{scenario: "places", name: "places are kept", settle: func(s *storage.Settlement) { s.Nonce++ }},
	{scenario: "response", name: "gives all back", settle: settledAt(func(int64) int64 { return 0 })},
	{scenario: "response", name: "denies what is done", settle: func(s *storage.Settlement) { s.Overage = algorithm.OverageDeny }},
	{scenario: "body", name: "estimates nothing", old: "estimate: int(max) * 2, ", new: "attribute: max, "},
	{scenario: "body", name: "settles another cost", settle: settledAt(func(cost int64) int64 { return cost + 1 })},
	{scenario: "body", name: "each rule is charged more by itself", ticket: everyGroup(func(g *storage.Group) { g.Alone = g.Alone || g.Reserve == 0 })},
	{scenario: "body", name: "a rule that does not cut is charged more", old: "default: 5, max: 60", new: "default: 5, max: 60, cut: true"},
	{scenario: "changed", name: "knows nothing any more", settle: func(s *storage.Settlement) { s.Nonce++ }},
}

func TestSabotageIsNoticed(t *testing.T) {
	all := scenarios(t)
	unproved := map[string]bool{}
	for name := range all {
		unproved[name] = true
	}
	for _, s := range sabotages {
		delete(unproved, s.scenario)
		t.Run(s.scenario+"/"+s.name, func(t *testing.T) {
			o := engine.Options{Store: &tamperingStore{newMemory(t), s}}
			if len(runWith(t, s.rewritten(t, all[s.scenario]), o, s)) == 0 {
				t.Error("the scenario did not notice")
			}
		})
	}
	for name := range unproved {
		t.Errorf("no sabotage shows that the scenario %s can fail", name)
	}
}

func (s *sabotage) rewritten(t *testing.T, files []txtar.File) []txtar.File {
	files = slices.Clone(files)
	if s.old == "" {
		return files
	}
	for i := range files {
		if files[i].Name == "rules.yaml" {
			changed := bytes.Replace(files[i].Data, []byte(s.old), []byte(s.new), 1)
			if bytes.Equal(changed, files[i].Data) {
				t.Fatalf("the rules do not say %s", s.old)
			}
			files[i].Data = changed
		}
	}
	return files
}

// tamperingStore is a store that gets another ticket than was asked.
type tamperingStore struct {
	*memstore.Store
	sabotage
}

func (s *tamperingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if s.ticket != nil {
		t = cloned(t)
		s.ticket(t)
	}
	return s.Store.Take(ctx, t, out)
}

func (s *tamperingStore) Settle(ctx context.Context, what *storage.Settlement, out *storage.SettleOutcome) error {
	if s.settle != nil {
		s.settle(what)
	}
	return s.Store.Settle(ctx, what, out)
}

func cloned(t *storage.Ticket) *storage.Ticket {
	c := *t
	c.Groups = slices.Clone(t.Groups)
	for i := range c.Groups {
		c.Groups[i].Charges = slices.Clone(t.Groups[i].Charges)
	}
	return &c
}

// alteredEngine is an engine with altered verdicts.
type alteredEngine struct {
	*engine.Engine
	alter func(*penstock.Verdict)
}

func (a alteredEngine) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	err := a.Engine.Decide(ctx, c, v)
	a.alter(v)
	return err
}

func everyGroup(do func(*storage.Group)) func(*storage.Ticket) {
	return func(t *storage.Ticket) {
		for i := range t.Groups {
			do(&t.Groups[i])
		}
	}
}

func everyCharge(do func(*algorithm.Charge)) func(*storage.Ticket) {
	return everyGroup(func(g *storage.Group) {
		for i := range g.Charges {
			do(&g.Charges[i])
		}
	})
}

func settledAt(cost func(int64) int64) func(*storage.Settlement) {
	return func(s *storage.Settlement) {
		for i := range s.Charges {
			s.Charges[i].Cost = cost(s.Charges[i].Cost)
		}
	}
}

// tells sets the verdict's decision to one limit's numbers; -1 is the last.
func tells(which int) func(*penstock.Verdict) {
	return func(v *penstock.Verdict) {
		i := which
		if i < 0 {
			i += len(v.Limits)
		}
		v.Rule, v.Decision = v.Limits[i].Rule, v.Limits[i].Decision
	}
}

func everyOverride(do func(i int, o *rules.Override)) func(*rules.Snapshot) {
	return func(s *rules.Snapshot) {
		for _, r := range s.Rules {
			for i := range r.Overrides {
				do(i, &r.Overrides[i])
			}
		}
	}
}

// scopes gives overrides other counters than they have.
func scopes(scope func(i int, o *rules.Override) uint64) func(*rules.Snapshot) {
	return everyOverride(func(i int, o *rules.Override) {
		for k, m := range o.Limits {
			l := m.Limit()
			l.Scope = scope(i, o)
			o.Limits[k] = l.MustCompile()
		}
	})
}

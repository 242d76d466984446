package storetest

import (
	"fmt"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The cases that traces with guards must reach: in requests, and in other operations.
var (
	guardedCalls = []string{
		"strike", "ban", "second ban", "banned call", "banned peek", "forgiven", "penalty redated", "ban in another's denial",
		"replay", "replay that another group denies", "replay of a queued call", "replay that names the first",
		"replay that takes a permit", "replay without a permit",
		"repeat beyond the budget", "repeat too often or too late", "reservation", "reservation denied", "alone and guarded",
		"overdraft", "overdraft cut", "overdraft denied",
	}
	settlements = []string{
		"settle", "settle again", "settle refused", "settle no reservation", "settle closed",
		"release", "release again", "release no reservation", "release closed",
		"renew", "renew no reservation", "renew closed",
		"overage deny", "overage allow", "overage debt", "give-back", "refund of what was charged", "charge that was not reserved",
		"lease settled", "reserved lease renewed", "renewal of a lost lease", "ban by hand", "lift", "reset",
		"strike by a settlement", "ban by a settlement", "settlement of a banned subject",
		"late charge", "late charge again", "late charge cut", "late charge of which nothing counts",
		"late entry in between", "late charge to a state redated",
	}
)

func (t *tally) missingAround(plain bool) (problems []error) {
	want := guardedCalls
	if !plain {
		want = append(want[:len(want):len(want)], settlements...)
	}
	for _, what := range want {
		if t.around[what] == 0 {
			problems = append(problems, fmt.Errorf("around the charges: no %s", what))
		}
	}
	return problems
}

// see counts a case of the guards.
func (t *tally) see(what string, seen bool) {
	if t == nil || !seen {
		return
	}
	if t.around == nil {
		t.around = map[string]int{}
	}
	t.around[what]++
}

// answered counts the result of a step.
func (t *tally) answered(s *step, a *answer) {
	switch {
	case s.settle != nil:
		t.settled(s.settle, a)
	case s.ban != nil && s.ban.Length == 0:
		t.see("lift", true)
	case s.ban != nil:
		t.see("ban by hand", true)
	case s.reset != nil:
		t.see("reset", true)
	case s.late != nil: // counted by the ledger
	default:
		decisions := a.outcome.Decisions
		for i := range s.ticket.Groups {
			g := &s.ticket.Groups[i]
			t.guarded(g, &a.outcome, i, decisions[:len(g.Charges)])
			decisions = decisions[len(g.Charges):]
		}
	}
}

func (t *tally) settled(s *storage.Settlement, a *answer) {
	verb := s.Verb.String()
	switch {
	case a.refusal == storage.ErrNoReservation:
		t.see(verb+" no reservation", true)
		return
	case a.refusal == storage.ErrClosed:
		t.see(verb+" closed", true)
		return
	case a.settled.Again:
		t.see(verb+" again", true)
		return
	case !a.settled.Allowed:
		t.see(verb+" refused", true)
	default:
		t.see(verb, true)
	}
	if s.Verb == storage.Settle {
		t.see("overage "+s.Overage.String(), true)
	}
	if s.OnlyLeases() {
		t.see("lease settled", true)
	}
}

func (t *tally) guarded(g *storage.Group, out *storage.Outcome, i int, decisions []algorithm.Decision) {
	o, see := &out.Groups[i], t.see
	begun := o.BannedUntil != 0 && !o.Allowed
	see("strike", o.Strikes > 0)
	see("ban", begun && o.Bans == 1)
	see("second ban", begun && o.Bans == 2)
	see("banned call", o.BannedUntil != 0 && g.Spends())
	see("banned peek", o.BannedUntil != 0 && !g.Spends())
	see("ban in another's denial", begun && len(out.Groups) > 1 && !g.Alone)
	see("replay", o.Replay && o.Taken)
	see("replay that another group denies", o.Replay && !o.Taken)
	see("replay that names the first", o.Replay && o.Original != 0)
	see("replay that takes a permit", o.Replay && o.Nonce != 0)
	see("replay without a permit", o.Replay && !o.Allowed)
	see("reservation", g.Reserve != 0 && o.Nonce != 0 && !o.Replay)
	see("reservation denied", g.Reserve != 0 && !o.Taken)
	see("alone and guarded", g.Alone && g.Guarded())
	for j, c := range g.Charges {
		see("replay of a queued call", o.Replay && decisions[j].Delay > 0)
		see("overdraft", c.Overdraw && decisions[j].Used > decisions[j].Limit && decisions[j].Receipt.Cost > 0)
		see("overdraft cut", c.Overdraw && decisions[j].Receipt.Cost > 0 && decisions[j].Receipt.Cost < c.Cost)
		see("overdraft denied", c.Overdraw && !decisions[j].Allowed)
	}
}

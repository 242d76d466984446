package storetest

import (
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A groupDecision is one group while the ledger decides it: its guards, around its charges.
type groupDecision struct {
	*storage.Group
	ticket  *storage.Ticket
	now     algorithm.Instant
	charges []*chargeDecision

	sight        storage.GuardResult
	wrongPenalty bool            // the penalty's state was written by a wrong clock
	budget       *chargeDecision // for a duplicate
}

func newGroupDecision(t *storage.Ticket, g *storage.Group, now algorithm.Instant) *groupDecision {
	h := &groupDecision{Group: g, ticket: t, now: now}
	for _, c := range g.Charges {
		h.charges = append(h.charges, h.weighing(c))
	}
	return h
}

func (h *groupDecision) weighing(c algorithm.Charge) *chargeDecision {
	return &chargeDecision{Charge: c, account: stateKey{h.Subject, c.Meter.Fingerprint}, now: h.now, ticket: h.ticket, cost: c.Need()}
}

// hear checks everything and writes nothing: first the ban, then whether it is a duplicate, then the
// charges.
func (h *groupDecision) hear(l ledger) {
	if h.Penalty != nil {
		state := l.balances[h.penaltyAccount()].penalty
		h.sight.Penalty, h.sight.Banned, h.wrongPenalty = h.Penalty.Weigh(state, h.now)
		l.tally.see("penalty redated", h.wrongPenalty)
		l.tally.see("forgiven", state.Packed() != 0 && h.sight.Penalty.Packed() == 0)
	}
	if h.Remembers() && !h.sight.Banned {
		h.sight.First = l.calls[callKey{h.Subject, h.Call}]
		h.budget = h.weighing(algorithm.Charge{Meter: h.Dedup.Budget, Cost: h.ReplayCost()})
		h.budget.weigh(l.balances[h.budget.account])
		affordable := h.budget.found.Passes
		recalls := h.Dedup.Recalls(h.sight.First, h.now)
		h.sight.Replay = affordable && recalls
		l.tally.see("repeat beyond the budget", recalls && !affordable)
		l.tally.see("repeat too often or too late", h.sight.First.First != 0 && !recalls)
	}
	for _, w := range h.charges {
		if h.sight.Replay && !w.TakesPermit() {
			w.cost = 0 // only read
		}
		w.weigh(l.balances[w.account])
	}
}

func (h *groupDecision) penaltyAccount() stateKey {
	return stateKey{h.Subject, algorithm.PenaltyFingerprint}
}

func (h *groupDecision) passes() bool { return h.Passes(h.found(), &h.sight) }

func (h *groupDecision) found() (found []storage.ChargeResult) {
	for _, w := range h.charges {
		found = append(found, w.found)
	}
	return found
}

// conclude writes the result of the verdict on all groups that are decided together.
func (h *groupDecision) conclude(l ledger, pass bool) {
	isNew := !h.sight.Banned && !h.sight.Replay
	for _, w := range h.charges {
		after, write := w.conclude(pass, isNew || h.sight.Replay && w.TakesPermit())
		if write {
			l.balances[w.account] = after
		}
		w.report(after)
		l.tally.add(w, write && !pass && w.Meter.CountDenied)
	}
	switch {
	case h.sight.Replay && pass:
		record := h.sight.First
		record.Replays++
		l.calls[callKey{h.Subject, h.Call}] = record
		l.balances[h.budget.account] = h.budget.charged()
	case isNew && h.IsStrike(h.found()):
		h.sight.Penalty = h.Penalty.Strike(h.sight.Penalty, h.now)
		l.balances[h.penaltyAccount()] = stateValue{penalty: h.sight.Penalty}
	case h.wrongPenalty && !h.sight.Replay && h.Spends():
		l.balances[h.penaltyAccount()] = stateValue{penalty: h.sight.Penalty}
	}
}

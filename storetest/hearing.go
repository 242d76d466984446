package storetest

import "github.com/penstock-io/penstock"

// A hearing is one group on its way through the ledger: its guards, around its charges.
type hearing struct {
	*penstock.Group
	now     penstock.Instant
	charges []*weighing

	sight        penstock.Sight
	wrongPenalty bool           // a wrong clock wrote the penalty's state
	budget       penstock.State // for repeats, up to date
}

func newHearing(t *penstock.Ticket, g *penstock.Group, now penstock.Instant) *hearing {
	h := &hearing{Group: g, now: now}
	for _, c := range g.Charges {
		h.charges = append(h.charges, &weighing{Charge: c, account: account{g.Subject, c.Meter.Fingerprint}, now: now, ticket: t})
	}
	return h
}

// hear looks at everything and writes nothing: the ban, then whether it is a repeat, then charges.
func (h *hearing) hear(l ledger) {
	if h.Penalty != nil {
		state := l.balances[h.penaltyAccount()].state
		h.sight.Penalty, h.sight.Banned, h.wrongPenalty = h.Penalty.Weigh(state, h.now)
		l.tally.see("penalty dated anew", h.wrongPenalty)
		l.tally.see("forgiven", state.B != 0 && h.sight.Penalty.B == 0)
	}
	if h.Remembers() && !h.sight.Banned {
		var affordable bool
		h.sight.First = l.calls[callOf{h.Subject, h.Call}]
		h.budget, affordable, _ = h.Dedup.Budget.Weigh(l.balances[h.budgetAccount()].state, h.now, 1, 0)
		recalls := h.Dedup.Recalls(h.sight.First, h.now)
		h.sight.Replay = affordable && recalls
		l.tally.see("repeat beyond the budget", recalls && !affordable)
		l.tally.see("repeat too often or too late", h.sight.First.First != 0 && !recalls)
	}
	for _, w := range h.charges {
		w.cost = w.Need()
		if h.sight.Replay {
			w.cost = 0 // is only looked at
		}
		w.weigh(l.balances[w.account])
	}
}

func (h *hearing) penaltyAccount() account { return account{h.Subject, penstock.PenaltyFingerprint} }
func (h *hearing) budgetAccount() account {
	return account{h.Subject, h.Dedup.Budget.Fingerprint}
}

func (h *hearing) passes() bool {
	if h.sight.Banned || h.sight.Replay {
		return !h.sight.Banned
	}
	for _, w := range h.charges {
		if !w.found.Passes {
			return false
		}
	}
	return true
}

func (h *hearing) found() (found []penstock.Found) {
	for _, w := range h.charges {
		found = append(found, w.found)
	}
	return found
}

// conclude writes what follows from the verdict on all groups that stand or fall together.
func (h *hearing) conclude(l ledger, pass bool) {
	touchable := !h.sight.Banned && !h.sight.Replay
	for _, w := range h.charges {
		after, write := w.conclude(pass, touchable)
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
		l.calls[callOf{h.Subject, h.Call}] = record
		l.balances[h.budgetAccount()] = balance{state: h.Dedup.Budget.Charge(h.budget, 1)}
	case touchable && h.IsStrike(h.found()):
		h.sight.Penalty = h.Penalty.Strike(h.sight.Penalty, h.now)
		l.balances[h.penaltyAccount()] = balance{state: h.sight.Penalty}
	case h.wrongPenalty && !h.sight.Replay && h.Spends():
		l.balances[h.penaltyAccount()] = balance{state: h.sight.Penalty}
	}
}

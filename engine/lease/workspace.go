package lease

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A workspace is the memory for deciding one ticket, reused for the next.
type workspace struct {
	parts   []part // one for each group
	asked   int    // groups that the store has to decide
	fetches int    // leases to take with the ticket
	now     penstock.Instant

	// decided is when leases decided, by the store's clock: the lowest of their estimates, as none is too
	// low.
	decided penstock.Instant

	// ticket is what the store is asked: the groups that leases do not cover, then the new leases. outcome is
	// its answer.
	ticket  storage.Ticket
	charges []algorithm.Charge // of the leases
	outcome storage.Outcome
}

// plan covers groups from leases where possible.
func (w *workspace) plan(s *Store, t *storage.Ticket) {
	w.now = s.instant(t.Now)
	w.asked, w.fetches = 0, 0
	w.outcome.Allowed, w.decided = true, algorithm.MaxInstant
	w.parts = slices.Grow(w.parts[:0], len(t.Groups))[:len(t.Groups)]
	for i := range t.Groups {
		p := &w.parts[i]
		*p = part{}
		if leasable(&t.Groups[i]) {
			p.cover(&s.table, t, i, w.now, len(t.Groups)+w.fetches < storage.MaxGroups)
		}
		if p.covered() {
			w.decided = min(w.decided, p.now)
		} else {
			w.asked++
		}
		if p.ahead > 0 {
			w.fetches++
		}
	}
}

// write builds the ticket for the store. It names the leases, so that the store can take them back.
func (w *workspace) write(t *storage.Ticket) {
	w.ticket = storage.Ticket{Now: t.Now, MaxDelay: t.MaxDelay, Nonce: t.Nonce, Groups: w.ticket.Groups[:0]}
	w.charges = slices.Grow(w.charges[:0], w.fetches*maxLimits) // groups point into it: it must not move
	for i := range w.parts {
		if !w.parts[i].covered() {
			w.ticket.Groups = append(w.ticket.Groups, t.Groups[i])
		}
	}
	for i := range w.parts {
		p := &w.parts[i]
		if p.ahead == 0 {
			continue
		}
		from := len(w.charges)
		for j := range t.Groups[i].Charges {
			w.charges = append(w.charges, algorithm.Charge{Meter: t.Groups[i].Charges[j].Meter, Cost: p.ahead})
		}
		lease := storage.Group{Subject: t.Groups[i].Subject, Charges: w.charges[from:len(w.charges):len(w.charges)], Alone: true}
		if !w.guards(&lease.Subject) {
			w.ticket.Nonce = cmp.Or(w.ticket.Nonce, rand.Uint64()|1)
			p.nonce, lease.Reserve = w.ticket.Nonce, reserve(p.life)
		}
		w.ticket.Groups = append(w.ticket.Groups, lease)
	}
}

// guards reports whether the ticket has a guarded group of the subject: there can be only one.
func (w *workspace) guards(s *storage.Subject) bool {
	for i := range w.ticket.Groups {
		if g := &w.ticket.Groups[i]; g.Subject == *s && g.Guarded() {
			return true
		}
	}
	return false
}

// receive reads the store's answer: first the groups it decided, then the leases.
func (w *workspace) receive(t *storage.Ticket, now penstock.Instant) {
	rest := w.learn(t, &w.outcome, now)
	for i := range w.parts {
		p, g := &w.parts[i], &t.Groups[i]
		if p.ahead > 0 {
			group, decisions, states := rest.next(len(g.Charges))
			p.collect(g, group.Taken, decisions, states, w.now, now, w.outcome.Now)
		}
	}
}

// fail ends the fetches of a ticket that the store did not answer.
func (w *workspace) fail() {
	for i := range w.parts {
		if w.parts[i].ahead > 0 {
			w.parts[i].fail()
		}
	}
}

// learn keeps the store's answer for the groups it decided, and returns the rest.
func (w *workspace) learn(t *storage.Ticket, out *storage.Outcome, now penstock.Instant) (rest storeAnswer) {
	rest = storeAnswer{out.Groups, out.Decisions, out.States}
	for i := range w.parts {
		p, g := &w.parts[i], &t.Groups[i]
		if p.covered() {
			continue
		}
		group, decisions, states := rest.next(len(g.Charges))
		if p.shard != nil {
			p.learn(g, group, decisions, states, now)
		}
	}
	return rest
}

// storeAnswer is a store's answer, read group by group. There may be no states.
type storeAnswer struct {
	groups    []storage.GroupOutcome
	decisions []penstock.Decision
	states    []algorithm.State
}

func (s *storeAnswer) next(charges int) (g *storage.GroupOutcome, decisions []penstock.Decision, states []algorithm.State) {
	g, decisions = &s.groups[0], s.decisions[:charges]
	s.groups, s.decisions = s.groups[1:], s.decisions[charges:]
	if len(s.states) >= charges {
		states, s.states = s.states[:charges], s.states[charges:]
	}
	return g, decisions, states
}

// giveBack returns the quota of a request that is denied or was not decided. If it was not decided, that
// includes groups that are alone.
func (w *workspace) giveBack(t *storage.Ticket, all bool) {
	for i := range w.parts {
		if g := &t.Groups[i]; w.parts[i].covered() && (all || !g.Alone) {
			w.parts[i].giveBack(g.Charges[0].Cost)
		}
	}
}

// answer combines the store's answer and what leases decided.
func (w *workspace) answer(t *storage.Ticket, out *storage.Outcome) {
	charges := 0
	for i := range t.Groups {
		charges += len(t.Groups[i].Charges)
	}
	out.Allowed, out.Now = w.outcome.Allowed, w.outcome.Now
	if w.asked == 0 {
		out.Now = w.decided // even if a lease was taken since
	}
	out.Groups = slices.Grow(out.Groups[:0], len(t.Groups))[:len(t.Groups)]
	out.Decisions = slices.Grow(out.Decisions[:0], charges)[:charges]
	out.States = slices.Grow(out.States[:0], charges)[:charges]
	to, from := storeAnswer{out.Groups, out.Decisions, out.States}, storeAnswer{w.outcome.Groups, w.outcome.Decisions, w.outcome.States}
	for i := range t.Groups {
		p, g := &w.parts[i], &t.Groups[i]
		group, decisions, states := to.next(len(g.Charges))
		if p.covered() {
			*group = storage.GroupOutcome{Allowed: true, Taken: g.Alone || out.Allowed, Leased: true}
			p.report(g, group.Taken, decisions, states)
			continue
		}
		itsGroup, itsDecisions, itsStates := from.next(len(g.Charges))
		*group = *itsGroup
		copy(decisions, itsDecisions)
		clear(states[copy(states, itsStates):])
	}
}

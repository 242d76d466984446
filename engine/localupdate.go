package engine

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// The local store learns what the shared one answers, so that a node continues from there when the shared one
// becomes unavailable. Each exact answer carries the state of the counters it was decided by, and replaces
// what the node knew of them. The same goes for a ban, or its absence.
//
// Some limits cannot be continued from the shared state, as it does not prove that they deny:
//   - Permits and reservations may be given back by other nodes, and so may the quota of a lease. A
//     node counts what it admitted itself under such rules, reservations with their settled cost.
//   - The state of a log does not say when its entries leave the window. A node counts what it admitted itself,
//     and after a denial denies until the retry that was announced.

// A localUpdate is the memory for updating the local store, reused for the next request.
type localUpdate struct {
	turn   storage.BatchItem
	groups [1]storage.Group
	charge [1]algorithm.Charge
	known  storage.StateReport
}

// countsHere reports whether this node decides the rule by its own counters while the shared store is
// unavailable.
func countsHere(r *rules.Rule) bool {
	return r.OnStoreError == rules.FailLocal || r.OnStoreError == rules.FailDivided
}

// updateLocal updates the local store with the answer of the shared one.
func (e *Engine) updateLocal(w *workspace) {
	out := &w.turn.Outcome
	if e.local == nil || out.Cached {
		return
	}
	x := &w.echo
	x.known = storage.StateReport{Now: out.Now, Given: w.turn.Ticket.Now != 0}
	shares, states := e.sharesFor(w.snapshot), out.States
	for i := range w.asked {
		g, r := &w.turn.Ticket.Groups[i], w.asked[i].rule
		if g.Penalty != nil {
			x.learnBan(e, g, out.Groups[i].BannedUntil)
		}
		own := out.Groups[i].Taken && !out.Groups[i].Replay && g.Reserve == 0
		switch {
		case !countsHere(r):
		case g.Leased || g.Returnable:
			if own {
				x.chargeEach(e, shares, r, g.Subject, g.Charges, w.turn.Ticket.Now, w.turn.Ticket.MaxDelay)
			}
		case len(out.States) == len(out.Decisions):
			x.learn(e, shares, r, g, states, own)
		}
		states = states[min(len(g.Charges), len(states)):]
	}
}

// learn replaces what the local store knows of a group's counters.
func (x *localUpdate) learn(e *Engine, shares *nodeShares, r *rules.Rule, g *storage.Group, states []algorithm.State, own bool) {
	x.known.Subject = g.Subject
	for j := range g.Charges {
		c := &g.Charges[j]
		if c.Meter.Kind == algorithm.KindLog && own {
			x.chargeEach(e, shares, r, g.Subject, g.Charges[j:j+1], x.chargeTime(), 0)
		}
		if c.Meter.Kind == algorithm.KindLeases || c.Meter.Kind == algorithm.KindLog && states[j].FreeAt == 0 {
			continue
		}
		x.known.Meter, x.known.State, x.known.Cost = shares.meter(r, c.Meter), states[j], c.Need()
		if c.Meter.Kind.Fixed() {
			if owed := e.books.amount(&g.Subject, c.Meter, x.known.Now); owed > 0 {
				x.known.State = c.Meter.Charge(x.known.State, owed)
			}
			if x.known.Meter != c.Meter {
				x.known.State = shares.state(c.Meter, x.known.Meter, x.known.State, x.known.Now)
			}
		}
		x.adopt(e)
	}
	x.known.Meter = nil
}

// learnBan replaces what the local store knows of a ban.
func (x *localUpdate) learnBan(e *Engine, g *storage.Group, until penstock.Instant) {
	x.known.Subject, x.known.Penalty, x.known.BannedUntil = g.Subject, g.Penalty, until
	x.adopt(e)
}

func (x *localUpdate) adopt(e *Engine) {
	if e.follower == nil {
		return
	}
	var err error // ignored: a failure is no worse than a store that cannot learn
	defer recoverPanic(&err)
	e.follower.Adopt(&x.known)
}

// chargeTime returns the instant to charge the local store at.
func (x *localUpdate) chargeTime() penstock.Instant {
	if x.known.Given {
		return x.known.Now
	}
	return 0
}

// chargeEach charges each limit by itself, as far as there is room: the cost was taken, even if the local store
// would deny it, and a share may be full while the limit is not.
func (x *localUpdate) chargeEach(e *Engine, shares *nodeShares, r *rules.Rule, who storage.Subject, charges []algorithm.Charge, now penstock.Instant, maxDelay time.Duration) {
	for _, c := range charges {
		if c.Cost == 0 || c.Meter.Kind == algorithm.KindLeases {
			continue
		}
		x.charge[0] = algorithm.Charge{Meter: shares.meter(r, c.Meter), Cost: c.Cost, Overdraw: c.Cost > 1 && c.Meter.Kind != algorithm.KindLeaky}
		x.groups[0] = storage.Group{Subject: who, Charges: x.charge[:]}
		x.turn.Ticket = storage.Ticket{Now: now, MaxDelay: maxDelay, Groups: x.groups[:]}
		_ = take(context.Background(), e.local, &x.turn)
	}
}

// echoSettled updates the local store with the settled cost of a reservation of the shared one, and with the ban that
// the settlement may have caused.
func (e *Engine) echoSettled(r *rules.Rule, s *storage.Settlement, out *storage.SettleOutcome) {
	if e.local == nil || r == nil || s.Verb != penstock.Settle || !out.Allowed || out.Again {
		return
	}
	x := new(localUpdate)
	if s.Strike != nil {
		x.known = storage.StateReport{Now: out.Now, Given: s.Now != 0}
		x.learnBan(e, &storage.Group{Subject: s.Subject, Penalty: s.Strike}, out.BannedUntil)
	}
	if countsHere(r) {
		x.chargeEach(e, e.sharesFor(e.rules.Load()), r, s.Subject, s.Charges, s.Now, 0)
	}
}

// isBanned reports whether the local store knows of a ban. It reads nothing else and writes nothing.
func (x *localUpdate) isBanned(e *Engine, g *storage.Group, now penstock.Instant) bool {
	if g.Penalty == nil || g.Alone {
		return false
	}
	x.charge[0] = algorithm.Charge{Meter: g.Charges[0].Meter}
	x.groups[0] = storage.Group{Subject: g.Subject, Penalty: g.Penalty, Charges: x.charge[:]}
	x.turn.Ticket = storage.Ticket{Now: now, Groups: x.groups[:]}
	return take(context.Background(), e.local, &x.turn) == nil && x.turn.Outcome.Groups[0].BannedUntil != 0
}

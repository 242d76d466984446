package engine

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// The local store is told what the shared one has taken for this node, and whom it has banned, all the time: when the shared
// one goes away, the node goes on from what it has let pass, and does so on a path that is not new to
// it. What it says of that is not heard.
//
// It is told less than everything. Places among running calls are not counted, as they are given back
// to the shared store alone. A reservation is counted with what it came to when it is settled, and a
// denied call not at all. All of that errs on the side of the caller, by no more than the full limit
// that the node enforces anyway.

// An echo is what telling the local store takes, kept for the next.
type echo struct {
	turn   penstock.Turn
	groups [1]penstock.Group
	charge [1]penstock.Charge
	ban    penstock.Ban
}

// countsHere tells rules that this node decides by its own count when it has to.
func countsHere(r *rules.Rule) bool {
	return r.OnStoreError == rules.FailLocal || r.OnStoreError == rules.FailDivided
}

// echo tells the local store of a call that the shared one has decided.
func (e *Engine) echo(w *work) {
	if e.local == nil {
		return
	}
	for i := range w.asked {
		g, out, r := &w.turn.Ticket.Groups[i], &w.turn.Outcome.Groups[i], w.asked[i].rule
		if out.BannedUntil != 0 {
			w.echo.tellBan(e, g, w.turn.Ticket.Now, out.BannedUntil-w.turn.Outcome.Now)
		}
		if countsHere(r) && out.Taken && !out.Replay && g.Reserve == 0 {
			w.echo.tell(e, e.sharesFor(w.snapshot), r, g.Subject, g.Charges, w.turn.Ticket.Now, w.turn.Ticket.MaxDelay)
		}
	}
}

// tell charges each limit by itself, as far as there is room: it was taken, whatever the local store
// thinks of it, and a share may be full while the limit is not.
func (x *echo) tell(e *Engine, shares *shares, r *rules.Rule, who penstock.Subject, charges []penstock.Charge, now penstock.Instant, maxDelay time.Duration) {
	for _, c := range charges {
		if c.Cost == 0 || c.Meter.Kind == penstock.KindLeases {
			continue
		}
		x.charge[0] = penstock.Charge{Meter: shares.meter(r, c.Meter), Cost: c.Cost, Overdraw: c.Cost > 1 && c.Meter.Kind != penstock.KindLeaky}
		x.groups[0] = penstock.Group{Subject: who, Charges: x.charge[:]}
		x.turn.Ticket = penstock.Ticket{Now: now, MaxDelay: maxDelay, Groups: x.groups[:]}
		_ = take(context.Background(), e.local, &x.turn)
	}
}

// echoSettled tells the local store what a reservation of the shared one came to.
func (e *Engine) echoSettled(r *rules.Rule, s *penstock.Settlement, out *penstock.Settled) {
	if e.local != nil && r != nil && countsHere(r) && s.Verb == penstock.Settle && out.Allowed && !out.Again {
		new(echo).tell(e, e.sharesFor(e.rules.Load()), r, s.Subject, s.Charges, s.Now, 0)
	}
}

// tellBan makes the local store know of a ban for as long as it has still to run.
func (x *echo) tellBan(e *Engine, g *penstock.Group, now, left penstock.Instant) {
	length := time.Duration(left) * time.Microsecond
	if e.localBans == nil || length < penstock.MinWindow {
		return
	}
	x.ban = penstock.Ban{Now: now, Subject: g.Subject, Penalty: g.Penalty, Length: length}
	var err error // that it could not is no worse than not knowing
	defer contain(&err)
	_, err = e.localBans.Ban(context.Background(), &x.ban)
}

// isBanned tells whether the local store knows of a ban. It asks for nothing else, and leaves nothing.
func (x *echo) isBanned(e *Engine, g *penstock.Group, now penstock.Instant) bool {
	if g.Penalty == nil || g.Alone {
		return false
	}
	x.charge[0] = penstock.Charge{Meter: g.Charges[0].Meter}
	x.groups[0] = penstock.Group{Subject: g.Subject, Penalty: g.Penalty, Charges: x.charge[:]}
	x.turn.Ticket = penstock.Ticket{Now: now, Groups: x.groups[:]}
	return take(context.Background(), e.local, &x.turn) == nil && x.turn.Outcome.Groups[0].BannedUntil != 0
}

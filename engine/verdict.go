package engine

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
)

// fill builds the verdict from the answer of a store. Reason and quality stay as they are if no limit
// applied.
func (e *Engine) fill(ctx context.Context, v *penstock.Verdict, w *workspace, store penstock.Store, q penstock.Quality) {
	out := &w.turn.Outcome
	v.Allowed, v.Now = out.Allowed, out.Now
	decisions := out.Decisions
	for i := range w.turn.Ticket.Groups {
		n := len(w.turn.Ticket.Groups[i].Charges)
		w.report(v, i, decisions[:n])
		decisions = decisions[n:]
	}
	local := q == penstock.QualityLocal
	v.OriginalReservation = w.reservation(local, true)
	if v.Allowed {
		if v.Reservation = w.reservation(local, false); v.Reservation != "" {
			v.ReservedFor, v.SettleEarly, v.Metering = w.reservedFor(), w.settlesEarly(), w.metering()
		}
	} else {
		e.releaseShadowPermits(ctx, w, store)
	}
	if v.Rule == "" {
		return
	}
	v.Quality = w.quality(v, q)
	switch {
	case v.BannedUntil != 0:
		v.Reason = penstock.ReasonBanned
	case !v.Allowed:
		v.Reason = penstock.ReasonOverLimit
	case v.Duplicate:
		v.Reason = penstock.ReasonDuplicate
	default:
		v.Reason = penstock.ReasonOK
	}
}

// quality returns that of the store, unless a lease allowed the request. A lease never denies a request.
func (w *workspace) quality(v *penstock.Verdict, q penstock.Quality) penstock.Quality {
	for i := range w.asked {
		if v.Allowed && w.asked[i].isLive() && w.turn.Outcome.Groups[i].Leased {
			return penstock.QualityLeased
		}
	}
	return q
}

// report adds one group's limits to the verdict.
func (w *workspace) report(v *penstock.Verdict, group int, decisions []penstock.Decision) {
	g, a := &w.turn.Outcome.Groups[group], &w.asked[group]
	charges := w.turn.Ticket.Groups[group].Charges
	v.Allowed = v.Allowed && (g.Allowed || !a.isLive()) // the ticket's outcome does not include groups that are alone
	for j := range decisions {
		if d := &decisions[j]; g.BannedUntil != 0 && !d.Allowed || charges[j].CannotWait(d) {
			d.Remaining = 0 // what is left is not available to this client now
		}
		if add(v, a.rule, a.limits.Policies[j], charges[j].Meter, &decisions[j]) {
			v.BannedUntil = g.BannedUntil
		}
		v.Limits[len(v.Limits)-1].Banned = g.BannedUntil != 0
	}
	if a.isLive() {
		v.Duplicate = v.Duplicate || g.Replay
	}
}

// add adds one limit of a rule. It reports whether the limit now determines the verdict's decision.
func add(v *penstock.Verdict, r *rules.Rule, policy string, m *algorithm.Meter, d *penstock.Decision) (speaks bool) {
	return v.Add(penstock.LimitVerdict{
		Rule: r.Name, Policy: policy, Shadow: r.Mode == rules.Shadow,
		Algorithm: m.Algorithm(), Refill: m.Limit().Refill, Count: m.PerWindow(), Window: m.WindowAt(v.Now), Decision: *d,
	})
}

package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// decideWithoutStore decides a request that the store did not, by the failure policy of each rule.
func (e *Engine) decideWithoutStore(v *penstock.Verdict, w *workspace) {
	if !e.standIn(v, w) {
		return
	}
	ctx := context.Background() // answer even if the deadline has passed: the local store does not wait
	err := take(ctx, e.local, &w.turn)
	if errors.Is(err, storage.ErrFull) && w.dropShadow() {
		err = take(ctx, e.local, &w.turn)
	}
	switch {
	case err == nil:
		e.fill(ctx, v, w, e.local, penstock.QualityLocal)
		e.book(w)
	case errors.Is(err, storage.ErrFull):
		e.full(v, w)
	}
}

// standIn fills in the verdict by the rules' failure policies, and reports whether the local store must still
// be asked; the ticket is then for it.
func (e *Engine) standIn(v *penstock.Verdict, w *workspace) (asksLocal bool) {
	v.Allowed, v.Reason, v.Now = true, penstock.ReasonNoRule, e.instant()
	if slices.ContainsFunc(w.asked, func(a groupOrigin) bool { return a.isLive() }) {
		v.Reason, v.Quality = penstock.ReasonStoreError, penstock.QualityOpen
	}
	for i := range w.asked {
		if a := &w.asked[i]; a.isLive() && a.rule.OnStoreError == rules.FailDeny {
			v.Allowed, v.Rule, v.Quality = false, a.rule.Name, penstock.QualityClosed
			return false
		}
	}
	return e.local != nil && e.keepLocal(w)
}

// keepLocal keeps the groups of the ticket that are decided locally, with the limits that one node enforces,
// and those that are known to be banned. It reports whether there are any.
func (e *Engine) keepLocal(w *workspace) bool {
	shares := e.sharesFor(w.snapshot)
	groups, kept := w.turn.Ticket.Groups[:0], w.asked[:0]
	for i, g := range w.turn.Ticket.Groups {
		r := w.asked[i].rule
		if !countsHere(r) && !w.echo.isBanned(e, &g, w.turn.Ticket.Now) {
			continue
		}
		for j := range g.Charges {
			g.Charges[j].Meter = shares.meter(r, g.Charges[j].Meter)
		}
		if g.Remembers() {
			g.Dedup = shares.duplicates(r, g.Dedup)
		}
		groups, kept = append(groups, g), append(kept, w.asked[i])
	}
	w.turn.Ticket.Groups, w.asked = groups, kept
	return len(groups) > 0
}

package engine

import (
	"context"
	"slices"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// without decides a call that the store did not, by what each rule says of that.
func (e *Engine) without(ctx context.Context, v *penstock.Verdict, w *work) {
	v.Allowed, v.Reason, v.Now = true, penstock.ReasonNoRule, e.instant()
	if slices.ContainsFunc(w.asked, func(a asked) bool { return a.isLive() }) {
		v.Reason, v.Quality = penstock.ReasonStoreError, penstock.QualityOpen
	}
	for i := range w.asked {
		if a := &w.asked[i]; a.isLive() && a.rule.OnStoreError == rules.FailDeny {
			v.Allowed, v.Rule, v.Quality = false, a.rule.Name, penstock.QualityClosed
			return
		}
	}
	if e.local == nil || !w.keepLocal() {
		return
	}
	// The call is to be answered even if its time is up: the local store does not wait.
	ctx = context.WithoutCancel(ctx)
	if take(ctx, e.local, &w.turn) == nil {
		e.fill(ctx, v, w, e.local, penstock.QualityLocal)
	}
}

// keepLocal leaves of the ticket the groups that are to be decided locally, and tells whether there
// are any.
func (w *work) keepLocal() bool {
	groups, kept := w.turn.Ticket.Groups[:0], w.asked[:0]
	for i, g := range w.turn.Ticket.Groups {
		if f := w.asked[i].rule.OnStoreError; f == rules.FailLocal || f == rules.FailDivided {
			groups, kept = append(groups, g), append(kept, w.asked[i])
		}
	}
	w.turn.Ticket.Groups, w.asked = groups, kept
	return len(groups) > 0
}

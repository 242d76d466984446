package engine

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// A full store has charged nothing and keeps limiting. It refuses only what it would have to remember:
// permits and reservations. So a rule does not fail open because of it, unless its failure policy is to
// allow.

// full builds the verdict of a request that a full store has refused: denied, unless every rule allows
// requests that are not decided.
func (e *Engine) full(v *penstock.Verdict, w *workspace) {
	v.Allowed, v.Reason, v.Now = true, penstock.ReasonNoRule, e.instant()
	for i := range w.asked {
		a := &w.asked[i]
		if !a.isLive() {
			continue
		}
		v.Reason, v.Quality = penstock.ReasonStoreError, penstock.QualityOpen
		if a.rule.OnStoreError != rules.FailAllow {
			v.Allowed, v.Rule, v.Quality = false, a.rule.Name, penstock.QualityClosed
			return
		}
	}
}

// dropShadow removes the groups of shadow rules from the ticket, because there was no room for all: a shadow
// rule must not deny anything. It reports whether it makes sense to ask again.
func (w *workspace) dropShadow() bool {
	before := len(w.asked)
	groups, kept := w.turn.Ticket.Groups[:0], w.asked[:0]
	for i, g := range w.turn.Ticket.Groups {
		if w.asked[i].isLive() {
			groups, kept = append(groups, g), append(kept, w.asked[i])
		}
	}
	w.turn.Ticket.Groups, w.asked = groups, kept
	return len(kept) > 0 && len(kept) < before
}

package engine

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Forget drops what this node knew of a key before an instant, by the shared store's clock, because an
// operator has reset it there, on any node. With onlyBan it drops only the ban, which was lifted.
func (e *Engine) Forget(s storage.Subject, onlyBan bool, before penstock.Instant) {
	if !onlyBan {
		e.books.forget(s, before)
	}
	if e.follower == nil {
		return
	}
	for _, r := range e.rules.Load().Rules {
		if r.Subjects.Tag() != s.Tag() {
			continue
		}
		g := storage.Group{Subject: s, Penalty: r.Penalty}
		if !onlyBan {
			r.KnownLimits(func(l *rules.Limits) {
				for _, m := range l.Meters {
					g.Charges = append(g.Charges, algorithm.Charge{Meter: m})
				}
			})
		}
		e.follower.Forget(&g, before)
	}
}

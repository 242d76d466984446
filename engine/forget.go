package engine

import "github.com/penstock-io/penstock"

// Forget drops what this node knows of a key from before an instant, by the shared store's clock: an
// operator has reset it there, on any node. With onlyBan it drops only what it knows of a ban, which
// was lifted.
func (e *Engine) Forget(s penstock.Subject, onlyBan bool, before penstock.Instant) {
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
		g := penstock.Group{Subject: s, Penalty: r.Penalty}
		add := func(limits []*penstock.Meter) {
			for _, m := range limits {
				g.Charges = append(g.Charges, penstock.Charge{Meter: m})
			}
		}
		if !onlyBan {
			add(r.Limits)
			for i := range r.Overrides {
				add(r.Overrides[i].Limits)
			}
		}
		e.follower.Forget(&g, before)
	}
}

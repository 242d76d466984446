package storetest

import (
	"cmp"
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// ban sets or lifts a manual ban and returns its end.
func (l ledger) ban(b *storage.Ban, now algorithm.Instant) algorithm.Instant {
	a := stateKey{b.Subject, algorithm.PenaltyFingerprint}
	state := b.Apply(l.balances[a].penalty, now)
	l.balances[a] = stateValue{penalty: state}
	if b.Length == 0 {
		return 0
	}
	return state.At
}

// reset forgets everything of a subject except the records of its requests.
func (l ledger) reset(g *storage.Group) {
	for _, c := range g.Charges {
		delete(l.balances, stateKey{g.Subject, c.Meter.Fingerprint})
	}
	delete(l.balances, stateKey{g.Subject, algorithm.PenaltyFingerprint})
	if g.Dedup != nil {
		delete(l.balances, stateKey{g.Subject, g.Dedup.Budget.Fingerprint})
	}
	for name := range l.reservations {
		if name.subject == g.Subject {
			delete(l.reservations, name)
		}
	}
}

// reserved returns the credible reservations of a subject, ordered by nonce.
func (l ledger) reserved(now algorithm.Instant, s storage.Subject) (live []storage.Reservation) {
	for name, r := range l.reservations {
		if name.subject == s && r.Live(now) {
			live = append(live, r)
		}
	}
	slices.SortFunc(live, func(a, b storage.Reservation) int { return cmp.Compare(a.Nonce, b.Nonce) })
	return live
}

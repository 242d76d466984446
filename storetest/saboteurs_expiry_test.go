package storetest

import (
	"context"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// forgetsByTheWriter forgets a counter when the limit that wrote it no longer needs it, whatever has read
// it since.
type forgetsByTheWriter struct {
	*Model
	ends map[stateKey]algorithm.Instant
}

func (s *forgetsByTheWriter) Take(_ context.Context, t *storage.Ticket, out *storage.Outcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := instantOf(t.Now)
	for where, end := range s.ends {
		if end <= now {
			delete(s.ledger.balances, where)
		}
	}
	before := s.ledger.clone()
	s.ledger.take(t, now, out)
	for _, g := range t.Groups {
		lives := map[uint64]int64{}
		for _, c := range g.Charges {
			lives[c.Meter.Fingerprint] = c.Meter.Life
		}
		if g.Penalty != nil {
			lives[algorithm.PenaltyFingerprint] = g.Penalty.Forgive
		}
		for fingerprint, life := range lives {
			where := stateKey{g.Subject, fingerprint}
			if now, was := s.ledger.balances[where], before.balances[where]; now.state != was.state || now.penalty != was.penalty {
				s.ends[where] = max(now.state.At, now.penalty.At) + algorithm.Instant(life)
			}
		}
	}
	return nil
}

package storetest

import (
	"context"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// givesBackTwice leaves open what it has released.
func givesBackTwice() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		name := reservationKey{s.Subject, s.Nonce}
		r, open := l.reservations[name]
		err := l.settle(s, s.Now, out)
		if open && err == nil && s.Verb == storage.Release && !r.Closed {
			l.reservations[name] = r
		}
		return err
	})
}

// strikesAgain counts the strike of a settlement each time it is sent.
func strikesAgain() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		err := l.settle(s, s.Now, out)
		if err == nil && out.Again && s.Strike != nil {
			(&settlementStep{Settlement: s, now: s.Now, ledger: l, out: out}).strike()
		}
		return err
	})
}

func forgetsClosed() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		err := l.settle(s, s.Now, out)
		if name := (reservationKey{s.Subject, s.Nonce}); l.reservations[name].Closed {
			delete(l.reservations, name)
		}
		return err
	})
}

// settlesAboveCapacity believes that there is more room than there is.
func settlesAboveCapacity() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		wide := settlement(*s)
		for i := range wide.Charges {
			limit := wide.Charges[i].Meter.Limit()
			more(&limit, 5)
			if m, err := limit.Compile(); err == nil {
				wide.Charges[i].Meter = m
			}
		}
		err := l.settle(&wide, s.Now, out)
		for i := range out.Decisions {
			d := &out.Decisions[i]
			d.Limit = s.Charges[i].Meter.Capacity
			d.Remaining = max(0, d.Limit-d.Used)
		}
		return err
	})
}

func allowsEveryOverage() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		s.Overage = max(s.Overage, algorithm.OverageAllow)
		return l.settle(s, s.Now, out)
	})
}

// givesBackLate dates every charge at the time of its refund.
func givesBackLate() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		r := l.reservations[reservationKey{s.Subject, s.Nonce}]
		for i := range r.Receipts {
			r.Receipts[i].At = s.Now
		}
		return l.settle(s, s.Now, out)
	})
}

func settlesForAnother() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		for name := range l.reservations {
			alike := name.subject[0] == s.Subject[0] || name.subject[15] == s.Subject[15]
			if alike && name.nonce == s.Nonce && name.subject != s.Subject {
				s.Subject = name.subject
				break
			}
		}
		return l.settle(s, s.Now, out)
	})
}

// settlesLate accepts a reservation that has expired.
func settlesLate() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		name := reservationKey{s.Subject, s.Nonce}
		if r, ok := l.reservations[name]; ok && r.Until <= s.Now {
			r.Until = s.Now + 1
			l.reservations[name] = r
		}
		return l.settle(s, s.Now, out)
	})
}

// renewsExpired takes a new permit for any client that asks to renew one.
func renewsExpired() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		if s.Verb == storage.Renew && s.OnlyLeases() {
			g := storage.Group{Subject: s.Subject}
			for _, c := range s.Charges {
				g.Charges = append(g.Charges, algorithm.Charge{Meter: c.Meter, Cost: 1})
			}
			l.take(&storage.Ticket{Now: s.Now, Nonce: s.Nonce, Groups: []storage.Group{g}}, s.Now, new(storage.Outcome))
		}
		return l.settle(s, s.Now, out)
	})
}

// releasesAnothers releases another client's permit if the client has none.
func releasesAnothers() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		err := l.settle(s, s.Now, out)
		if err == nil && out.Again && s.OnlyLeases() {
			a := stateKey{s.Subject, s.Charges[0].Meter.Fingerprint}
			if e := l.balances[a].entries; len(e) > 0 {
				l.balances[a] = stateValue{entries: e[1:]}
			}
		}
		return err
	})
}

// renewsForNothing reports a renewal, but does not renew.
func renewsForNothing() storage.Store {
	return settlesBy(func(l ledger, s *storage.Settlement, out *storage.SettleOutcome) error {
		if s.Verb == storage.Renew {
			l = l.clone()
		}
		return l.settle(s, s.Now, out)
	})
}

// resetsByName keeps a ban whose penalty the group does not name.
type resetsByName struct{ *Model }

func (s resetsByName) Reset(ctx context.Context, g *storage.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		a := stateKey{g.Subject, algorithm.PenaltyFingerprint}
		kept, has := s.ledger.balances[a]
		s.ledger.reset(g)
		if g.Penalty == nil && has {
			s.ledger.balances[a] = kept
		}
		return nil
	})
}

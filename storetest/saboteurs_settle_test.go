package storetest

import (
	"context"

	"github.com/penstock-io/penstock"
)

// givesBackTwice leaves what it has released open.
func givesBackTwice() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		name := takenUnder{s.Subject, s.Nonce}
		r, open := l.reservations[name]
		err := l.settle(s, s.Now, out)
		if open && err == nil && s.Verb == penstock.Release && !r.Closed {
			l.reservations[name] = r
		}
		return err
	})
}

func forgetsClosed() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		err := l.settle(s, s.Now, out)
		if name := (takenUnder{s.Subject, s.Nonce}); l.reservations[name].Closed {
			delete(l.reservations, name)
		}
		return err
	})
}

// settlesAboveCapacity has room for more than there is.
func settlesAboveCapacity() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
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

func allowsEveryOverage() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		s.Overage = max(s.Overage, penstock.OverageAllow)
		return l.settle(s, s.Now, out)
	})
}

// givesBackLate dates every charge anew when it is given back.
func givesBackLate() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		r := l.reservations[takenUnder{s.Subject, s.Nonce}]
		for i := range r.Receipts {
			r.Receipts[i].At = s.Now
		}
		return l.settle(s, s.Now, out)
	})
}

func settlesForAnother() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
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

// settlesLate believes a reservation that is over.
func settlesLate() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		name := takenUnder{s.Subject, s.Nonce}
		if r, ok := l.reservations[name]; ok && r.Until <= s.Now {
			r.Until = s.Now + 1
			l.reservations[name] = r
		}
		return l.settle(s, s.Now, out)
	})
}

// renewsExpired takes a lease anew for whoever asks to renew one.
func renewsExpired() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		if s.Verb == penstock.Renew && s.OnlyLeases() {
			g := penstock.Group{Subject: s.Subject}
			for _, c := range s.Charges {
				g.Charges = append(g.Charges, penstock.Charge{Meter: c.Meter, Cost: 1})
			}
			l.take(&penstock.Ticket{Now: s.Now, Nonce: s.Nonce, Groups: []penstock.Group{g}}, s.Now, new(penstock.Outcome))
		}
		return l.settle(s, s.Now, out)
	})
}

// releasesAnothers gives back the lease of somebody where the caller has none.
func releasesAnothers() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		err := l.settle(s, s.Now, out)
		if err == nil && out.Again && s.OnlyLeases() {
			a := account{s.Subject, s.Charges[0].Meter.Fingerprint}
			if e := l.balances[a].entries; len(e) > 0 {
				l.balances[a] = balance{entries: e[1:]}
			}
		}
		return err
	})
}

// renewsForNothing says that it renewed, and did not.
func renewsForNothing() penstock.Store {
	return settlesBy(func(l ledger, s *penstock.Settlement, out *penstock.Settled) error {
		if s.Verb == penstock.Renew {
			l = l.clone()
		}
		return l.settle(s, s.Now, out)
	})
}

// resetsByName keeps a ban whose penalty the group does not name.
type resetsByName struct{ *Model }

func (s resetsByName) Reset(ctx context.Context, g *penstock.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		a := account{g.Subject, penstock.PenaltyFingerprint}
		kept, has := s.ledger.balances[a]
		s.ledger.reset(g)
		if g.Penalty == nil && has {
			s.ledger.balances[a] = kept
		}
		return nil
	})
}

package storetest

import (
	"context"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A lateSaboteur is a model that charges late in a wrong way.
type lateSaboteur struct {
	*Model
	charge func(l ledger, c *storage.LateCharge)
}

func (s *lateSaboteur) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		mine := *c
		mine.Now = instantOf(c.Now)
		mine.Amounts = append([]storage.LateAmount(nil), c.Amounts...)
		s.charge(s.ledger, &mine)
		return nil
	})
}

func chargesLateBy(charge func(l ledger, c *storage.LateCharge)) storage.Store {
	return &lateSaboteur{NewModel(), charge}
}

func ignoresLateCharges() storage.Store {
	return chargesLateBy(func(ledger, *storage.LateCharge) {})
}

// chargesLateTwice forgets the nonce.
func chargesLateTwice() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		l.chargeLate(c, c.Now)
		delete(l.late, reservationKey{c.Subject, c.Nonce})
	})
}

// dates changes a late charge as if all of it had been admitted at an instant.
func dates(c *storage.LateCharge, at func(algorithm.Instant) algorithm.Instant) {
	for i := range c.Amounts {
		a := &c.Amounts[i]
		a.State.At = at(a.State.At)
		log := append([]algorithm.Entry(nil), a.Log...)
		for k := range log {
			log[k].At = at(log[k].At)
		}
		a.Log = log
	}
}

// chargesLateAsNew charges all of it as of now.
func chargesLateAsNew() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		dates(c, func(algorithm.Instant) algorithm.Instant { return c.Now })
		l.chargeLate(c, c.Now)
	})
}

// replacesByLate replaces the shared counter with the late one.
func replacesByLate() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		for _, a := range c.Amounts {
			delete(l.balances, stateKey{c.Subject, a.Meter.Fingerprint})
		}
		l.chargeLate(c, c.Now)
	})
}

// chargesLateWithoutCut charges beyond capacity and overdraft.
func chargesLateWithoutCut() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		for i := range c.Amounts {
			limit := c.Amounts[i].Meter.Limit()
			limit.Overdraft += 5
			if m, err := limit.Compile(); err == nil {
				c.Amounts[i].Meter = m
			}
		}
		l.chargeLate(c, c.Now)
	})
}

// believesLateInstants advances the state to a late instant that is in the future.
func believesLateInstants() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		now := c.Now
		for _, a := range c.Amounts {
			now = max(now, a.State.At)
			for _, e := range a.Log {
				now = max(now, e.At)
			}
		}
		l.chargeLate(c, now)
	})
}

// forgetsLateOnReset forgets the late charges of a subject with the subject.
type forgetsLateOnReset struct{ *Model }

func (s forgetsLateOnReset) Reset(ctx context.Context, g *storage.Group) error {
	return s.locked(ctx, func() error {
		for name := range s.ledger.late {
			if name.subject == g.Subject {
				delete(s.ledger.late, name)
			}
		}
		s.ledger.reset(g)
		return nil
	})
}

// appendsLate puts late entries after all others, as of now.
func appendsLate() storage.Store {
	return chargesLateBy(func(l ledger, c *storage.LateCharge) {
		for i := range c.Amounts {
			a := &c.Amounts[i]
			b := l.balances[stateKey{c.Subject, a.Meter.Fingerprint}]
			if n := len(b.entries); n > 0 && len(a.Log) > 0 {
				one := *c
				one.Amounts = []storage.LateAmount{*a}
				dates(&one, func(at algorithm.Instant) algorithm.Instant { return max(at, b.entries[n-1].At) })
				a.Log = one.Amounts[0].Log
			}
		}
		l.chargeLate(c, c.Now)
	})
}

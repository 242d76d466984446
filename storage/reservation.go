package storage

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/enum"
)

// A reservation is what a group took under its ticket's nonce, remembered so that it can be
// settled once the true cost is known, or released. An unsettled one stays charged. Leases of a
// concurrency limit can be released and renewed under their nonce without one.

// A Reservation is what a store remembers of one.
type Reservation struct {
	Nonce    uint64
	Until    algorithm.Instant   // afterwards it cannot be settled any more
	Closed   bool                // settled or released; Receipts then tell the cost it was closed with
	Receipts []algorithm.Receipt // of the charges with a cost
}

// Live tells whether the reservation can be believed at an instant. No store writes one that ends
// later than MaxReserve from now; a clock may have stepped back by as much again.
func (r *Reservation) Live(now algorithm.Instant) bool {
	return r.Until > now && r.Until <= now.Add(2*MaxReserve)
}

// Receipt returns what was taken of the meter; the zero receipt if nothing was.
func (r *Reservation) Receipt(m *algorithm.Meter) algorithm.Receipt {
	for _, receipt := range r.Receipts {
		if receipt.Fingerprint == m.Fingerprint {
			return receipt
		}
	}
	return algorithm.Receipt{Fingerprint: m.Fingerprint}
}

// Verb is what a settlement does.
type Verb uint8

const (
	Settle  Verb = iota // charge the true cost instead of the estimate, give leases back
	Release             // give everything back
	Renew               // have more time: the reservation from now on, and leases anew

	// Refund gives costs back without a reservation: what was charged in the current window or is missing
	// from the bucket, whichever request was charged, and never more than that. Unlike the others it takes
	// effect every time it is sent.
	Refund
)

var verbNames = [...]string{"settle", "release", "renew", "refund"}

func (v Verb) String() string { return enum.Name(verbNames[:], v, "Verb") }

const (
	MaxReserve = 24 * time.Hour // how long a reservation may stay open at a time

)

// A Settlement is about what one group took under a nonce. It takes effect once: the same again
// changes nothing, and anything else is refused.
type Settlement struct {
	Now     algorithm.Instant // as a ticket's
	Subject Subject
	Nonce   uint64
	Verb    Verb

	// Charges are those of the group. With Settle, their costs are the true ones; a lease's
	// cost is of no account.
	Charges []algorithm.Charge

	Overage algorithm.Overage
	TTL     time.Duration // with Renew, of a reservation; leases have their limit's

	// Lost, with Release, says that the reply to the ticket was lost: the ticket may have been taken,
	// or not, or may still arrive. A store that can receive tickets late takes nothing for one that
	// arrives within [LostFor] after its release, and answers it with [ErrClosed].
	Lost bool
}

// LostFor is for how long a store remembers that a lost ticket was released. It is longer than the
// operating system resends what was written to a connection that has been closed since.
const LostFor = 2 * time.Minute

// Settled is what became of a settlement. Reuse one to settle without allocating.
type Settled struct {
	Now       algorithm.Instant
	Allowed   bool                 // false where the overage was denied; the reservation is then still open
	Again     bool                 // it had been done before, and nothing was changed
	Until     algorithm.Instant    // with Renew, how long it is open now
	Decisions []algorithm.Decision // one for each charge: the numbers as they are now
}

// Validate reports what no store could settle.
func (s *Settlement) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w %v: %s", algorithm.ErrInvalid, s.Verb, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Verb > Refund:
		return fail("must be one of %v", verbNames)
	case s.Overage > algorithm.OverageDebt:
		return fail("overage %v must be one of %v", s.Overage, []algorithm.Overage{algorithm.OverageDeny, algorithm.OverageAllow, algorithm.OverageDebt})
	case s.Now < 0 || s.Now > algorithm.MaxInstant:
		return fail("now %d is not from 0 to %d µs", s.Now, algorithm.MaxInstant)
	case s.Nonce == 0 && s.Verb != Refund:
		return fail("no nonce to name what is meant")
	case len(s.Charges) == 0 || len(s.Charges) > MaxCharges:
		return fail("%d charges, must be from 1 to %d", len(s.Charges), MaxCharges)
	case s.Lost && s.Verb != Release:
		return fail("only a release can be of a lost ticket")
	case s.Verb == Renew && !isReserveTime(s.TTL):
		return fail("ttl %v is not from %v to %v", s.TTL, algorithm.MinWindow, MaxReserve)
	}
	for i := range s.Charges {
		if err := s.validateCharge(i); err != nil {
			return fail("%v", err)
		}
	}
	return nil
}

func isReserveTime(ttl time.Duration) bool { return ttl >= algorithm.MinWindow && ttl <= MaxReserve }

func (s *Settlement) validateCharge(i int) error {
	c := s.Charges[i]
	switch {
	case c.Meter == nil:
		return fmt.Errorf("charge %d has no meter", i)
	case c.Cost < 0 || c.Cost > algorithm.MaxCount:
		return fmt.Errorf("charge %d: cost %d is not from 0 to %d", i, c.Cost, int64(algorithm.MaxCount))
	}
	if err := c.Meter.Returns(); err != nil {
		return fmt.Errorf("charge %d: %w", i, err)
	}
	if s.Verb == Refund && !c.Meter.CanRefund() {
		return fmt.Errorf("charge %d: %q keeps every request by itself, so it cannot be refunded without a reservation", i, c.Meter)
	}
	for k := range i {
		if s.Charges[k].Meter.Fingerprint == c.Meter.Fingerprint {
			return fmt.Errorf("charges %q twice", c.Meter)
		}
	}
	return nil
}

// Cost returns what a charge of the settlement is to cost in the end.
func (s *Settlement) Cost(i int) int64 {
	if s.Verb == Release {
		return 0
	}
	return s.Charges[i].Cost
}

// OnlyLeases tells whether the settlement is about leases alone: those need no reservation.
func (s *Settlement) OnlyLeases() bool {
	for _, c := range s.Charges {
		if c.Meter.Kind != algorithm.KindLeases {
			return false
		}
	}
	return true
}

// Repeats tells whether the settlement is the one that closed the reservation.
func (s *Settlement) Repeats(r *Reservation) bool {
	if s.Verb == Renew {
		return false
	}
	for i, c := range s.Charges {
		if c.Meter.Kind != algorithm.KindLeases && r.Receipt(c.Meter).Cost != s.Cost(i) {
			return false
		}
	}
	return true
}

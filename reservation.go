package penstock

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/enum"
)

// A reservation is what a group took under its ticket's nonce, remembered so that it can be
// settled once the true cost is known, or released. An unsettled one stays charged. Leases of a
// concurrency limit can be released and renewed under their nonce without one.

// A Reservation is what a store remembers of one.
type Reservation struct {
	Nonce    uint64
	Until    Instant   // afterwards it cannot be settled any more
	Closed   bool      // settled or released; Receipts then tell the cost it was closed with
	Receipts []Receipt // of the charges with a cost
}

// Live tells whether the reservation can be believed at an instant. No store writes one that ends
// later than MaxReserve from now; a clock may have stepped back by as much again.
func (r *Reservation) Live(now Instant) bool {
	return r.Until > now && r.Until <= now.Add(2*MaxReserve)
}

// Receipt returns what was taken of the meter; the zero receipt if nothing was.
func (r *Reservation) Receipt(m *Meter) Receipt {
	for _, receipt := range r.Receipts {
		if receipt.Fingerprint == m.Fingerprint {
			return receipt
		}
	}
	return Receipt{Fingerprint: m.Fingerprint}
}

// Verb is what a settlement does.
type Verb uint8

const (
	Settle  Verb = iota // charge the true cost instead of the estimate, give leases back
	Release             // give everything back
	Renew               // have more time: the reservation from now on, and leases anew
)

var verbNames = [...]string{"settle", "release", "renew"}

func (v Verb) String() string { return enum.Name(verbNames[:], v, "Verb") }

const (
	MaxReserve = 24 * time.Hour // how long a reservation may stay open at a time

)

// A Settlement is about what one group took under a nonce. It takes effect once: the same again
// changes nothing, and anything else is refused.
type Settlement struct {
	Now     Instant // as a ticket's
	Subject Subject
	Nonce   uint64
	Verb    Verb

	// Charges are those of the group. With Settle, their costs are the true ones; a lease's
	// cost is of no account.
	Charges []Charge

	Overage Overage
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
	Now       Instant
	Allowed   bool       // false where the overage was denied; the reservation is then still open
	Again     bool       // it had been done before, and nothing was changed
	Until     Instant    // with Renew, how long it is open now
	Decisions []Decision // one for each charge: the numbers as they are now
}

// Validate reports what no store could settle.
func (s *Settlement) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w %v: %s", ErrInvalid, s.Verb, fmt.Sprintf(format, args...))
	}
	switch {
	case s.Verb > Renew:
		return fail("must be one of %v", verbNames)
	case s.Overage > OverageDebt:
		return fail("overage %v must be one of %v", s.Overage, overageNames)
	case s.Now < 0 || s.Now > MaxInstant:
		return fail("now %d is not from 0 to %d µs", s.Now, MaxInstant)
	case s.Nonce == 0:
		return fail("no nonce to name what is meant")
	case len(s.Charges) == 0 || len(s.Charges) > MaxCharges:
		return fail("%d charges, must be from 1 to %d", len(s.Charges), MaxCharges)
	case s.Lost && s.Verb != Release:
		return fail("only a release can be of a lost ticket")
	case s.Verb == Renew && (s.TTL < MinWindow || s.TTL > MaxReserve):
		return fail("ttl %v is not from %v to %v", s.TTL, MinWindow, MaxReserve)
	}
	for i, c := range s.Charges {
		switch {
		case c.Meter == nil:
			return fail("charge %d has no meter", i)
		case c.Cost < 0 || c.Cost > MaxCount:
			return fail("charge %d: cost %d is not from 0 to %d", i, c.Cost, int64(MaxCount))
		}
		if err := c.Meter.Returns(); err != nil {
			return fail("charge %d: %v", i, err)
		}
		for k := range i {
			if s.Charges[k].Meter.Fingerprint == c.Meter.Fingerprint {
				return fail("charges %q twice", c.Meter)
			}
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
		if c.Meter.Kind != KindLeases {
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
		if c.Meter.Kind != KindLeases && r.Receipt(c.Meter).Cost != s.Cost(i) {
			return false
		}
	}
	return true
}

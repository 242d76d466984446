package storage

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/enum"
)

// A reservation records what a group took under its ticket's nonce, so that it can be settled once the true
// cost is known, or released. Unsettled, it stays charged. Permits of a concurrency limit can be released and
// renewed under their nonce without a reservation.

// A Reservation is the record that a store keeps of a reservation.
type Reservation struct {
	Nonce    uint64
	Until    algorithm.Instant   // after that it cannot be settled
	Closed   bool                // settled or released; Receipts then hold the cost it was closed with
	Receipts []algorithm.Receipt // of the charges with a cost
}

// Live reports whether the reservation is plausible at an instant. No store writes one that ends later than
// MaxReserve from now; the clock may have stepped back by the same amount.
func (r *Reservation) Live(now algorithm.Instant) bool {
	return r.Until > now && r.Until <= now.Add(2*MaxReserve)
}

// Receipt returns what was taken from the meter, or the zero receipt if nothing was.
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
	Settle  Verb = iota // charge the true cost instead of the estimate, give permits back
	Release             // give everything back
	Renew               // extend the reservation and its permits, from now on

	// Refund gives costs back without a reservation: what was charged in the current window or is missing
	// from the bucket, regardless of which request was charged, and never more than that. Unlike the others,
	// it takes effect every time it is sent.
	Refund
)

var verbNames = [...]string{"settle", "release", "renew", "refund"}

func (v Verb) String() string { return enum.Name(verbNames[:], v, "Verb") }

const (
	MaxReserve = 24 * time.Hour // the longest time a reservation may stay open without a renewal

	// ClosedFor is how long a store remembers a reservation that has been closed, at most until it would have ended.
	// Within that time a settlement that is sent again is recognised; later it finds no reservation and changes
	// nothing. It is longer than a client waits before it sends again, and short because a busy key closes thousands a
	// second.
	ClosedFor = 10 * time.Second
)

// ClosedUntil returns until when a store remembers a reservation that is closed now.
func ClosedUntil(until, now algorithm.Instant) algorithm.Instant {
	return min(until, now.Add(ClosedFor))
}

// A Settlement settles, releases or renews what one group took under a nonce. It takes effect once: sending
// it again changes nothing, and a different one is refused.
type Settlement struct {
	Now     algorithm.Instant // as in a Ticket
	Subject Subject
	Nonce   uint64
	Verb    Verb

	// Charges are those of the group. With Settle, their costs are the true ones; the cost of a permit is
	// ignored.
	Charges []algorithm.Charge

	Overage algorithm.Overage
	TTL     time.Duration // with Renew, of a reservation; permits use their limit's

	// Strike, with Settle, makes closing the reservation a strike under this penalty, unless the subject is
	// already banned. It counts once, with the charges. Permits without a reservation never strike.
	Strike *algorithm.Penalty

	// Lost, with Release, says that the reply to the ticket was lost: the ticket may have been taken, or not,
	// or may still arrive. A store that can receive tickets late takes nothing for one that arrives within
	// [LostFor] after its release, and answers it with [ErrClosed].
	Lost bool
}

// LostFor is how long a store remembers that a lost ticket was released. It is longer than the operating
// system keeps resending data written to a connection that has been closed since.
const LostFor = 2 * time.Minute

// SettleOutcome is the result of a settlement. Reuse one to settle without allocating.
type SettleOutcome struct {
	Now       algorithm.Instant
	Allowed   bool                 // false if the overage was denied; the reservation is then still open
	Again     bool                 // it had been done before, so nothing changed
	Until     algorithm.Instant    // with Renew, when it now ends
	Decisions []algorithm.Decision // one for each charge: the current numbers

	// BannedUntil is the end of the subject's ban, of a settlement that closed a reservation with a Strike; 0
	// if the subject is not banned.
	BannedUntil algorithm.Instant
}

// Validate returns an error if no store can make the settlement.
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
	}
	if err := s.validateVerb(); err != nil {
		return fail("%v", err)
	}
	for i := range s.Charges {
		if err := s.validateCharge(i); err != nil {
			return fail("%v", err)
		}
	}
	return nil
}

// validateVerb checks what only some verbs have.
func (s *Settlement) validateVerb() error {
	switch {
	case s.Lost && s.Verb != Release:
		return errors.New("only a release can be of a lost ticket")
	case s.Strike != nil && s.Verb != Settle:
		return errors.New("only a settlement can be a strike")
	case s.Verb == Renew && !isReserveTime(s.TTL):
		return fmt.Errorf("ttl %v is not from %v to %v", s.TTL, algorithm.MinWindow, MaxReserve)
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

// Cost returns the final cost of a charge of the settlement.
func (s *Settlement) Cost(i int) int64 {
	if s.Verb == Release {
		return 0
	}
	return s.Charges[i].Cost
}

// OnlyLeases reports whether the settlement covers only permits, which need no reservation.
func (s *Settlement) OnlyLeases() bool {
	for _, c := range s.Charges {
		if c.Meter.Kind != algorithm.KindLeases {
			return false
		}
	}
	return true
}

// Repeats reports whether the settlement is the one that closed the reservation.
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

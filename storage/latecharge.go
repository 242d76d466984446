package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A LateCharger charges requests that were admitted without asking the store.
type LateCharger interface {
	// ChargeLate adds what still counts of the late charge to the subject's counters. Its nonce makes it take
	// effect once, so it may be sent again after an error. It never denies: it caps an amount where the
	// counter reaches the limit's capacity plus its overdraft.
	ChargeLate(ctx context.Context, c *LateCharge) error
}

// A LateCharge is what one node admitted for a subject while the store did not answer. The store has
// certainly not charged it.
type LateCharge struct {
	Now     algorithm.Instant // as in a Ticket
	Subject Subject
	Nonce   uint64
	Amounts []LateAmount
}

// A LateAmount is what was admitted under one limit, as a counter that holds only that, dated by the store's
// clock. The store brings the counter up to now before it adds it: windows that have ended count nothing, and
// buckets have drained since.
type LateAmount struct {
	Meter *algorithm.Meter
	State algorithm.State   // of a fixed-size kind
	Log   []algorithm.Entry // of a log, as [algorithm.Meter.RecordLog] writes it
}

const (
	// LateChargeTTL is how long a store remembers a late charge, so that sending it again changes nothing. It
	// may forget sooner once nothing of the charge counts any more.
	LateChargeTTL = 24 * time.Hour
)

// Validate returns an error if no store can make the charge.
func (c *LateCharge) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w late charge: %s", algorithm.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case c.Now < 0 || c.Now > algorithm.MaxInstant:
		return fail("now %d is not from 0 to %d µs", c.Now, algorithm.MaxInstant)
	case c.Nonce == 0:
		return fail("no nonce")
	case len(c.Amounts) == 0 || len(c.Amounts) > MaxCharges:
		return fail("%d amounts, must be from 1 to %d", len(c.Amounts), MaxCharges)
	}
	for i, a := range c.Amounts {
		if err := a.validate(); err != nil {
			return fail("amount %d%v", i, err)
		}
		for k := range i {
			if c.Amounts[k].Meter.Fingerprint == a.Meter.Fingerprint {
				return fail("charges %q twice", a.Meter)
			}
		}
	}
	return nil
}

// validate returns what is wrong with the amount; the caller puts the amount's number in front.
func (a *LateAmount) validate() error {
	switch {
	case a.Meter == nil:
		return errors.New(" has no meter")
	case !a.Meter.CanChargeLate():
		return fmt.Errorf(": %q cannot be charged afterwards", a.Meter)
	case a.State.At < 0 || a.State.At > algorithm.MaxInstant || a.State.Used < 0 || a.State.Previous < 0:
		return fmt.Errorf(": no counter of %q is in state %+v", a.Meter, a.State)
	case len(a.Log) > algorithm.MaxLateEntries:
		return fmt.Errorf(": %d log entries, at most %d", len(a.Log), algorithm.MaxLateEntries)
	}
	for k, e := range a.Log {
		if e.At < 0 || e.At > algorithm.MaxInstant || e.Value < 0 || k > 0 && e.Value < a.Log[k-1].Value {
			return fmt.Errorf(": log entry %d is %+v; totals must not fall and instants must be from 0 to %d", k, e, algorithm.MaxInstant)
		}
	}
	return nil
}

// TTL returns how long the charge has to be remembered, in µs: until nothing of it counts any more, or until
// it is no longer sent again.
func (c *LateCharge) TTL() (ttl int64) {
	for _, a := range c.Amounts {
		ttl = max(ttl, a.Meter.Life)
	}
	return min(ttl, LateChargeTTL.Microseconds())
}

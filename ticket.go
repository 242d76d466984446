package penstock

import (
	"fmt"
	"time"
)

// A Ticket is one call as a store sees it: its groups are taken together or not at all.
type Ticket struct {
	// Now is the instant to decide at; 0 is the store's clock. Tests and replays set it. A
	// store never expires state on the real clock that was written at a given instant.
	Now Instant

	// MaxDelay is how long the caller can wait for a leaky bucket. A door that cannot wait
	// leaves it 0 and is denied instead.
	MaxDelay time.Duration

	// Nonce names what this call takes, so that it can be given back even if the reply was
	// lost: a random number, needed when a charge is of a concurrency limit.
	Nonce uint64

	Groups []Group
}

// A Group is what one matching rule asks: a subject and its charges.
type Group struct {
	Subject Subject
	Charges []Charge

	// Alone marks a group that is all-or-nothing by itself: decided after the others, whatever
	// they said, and without a say in the ticket's verdict. Shadow rules are alone.
	Alone bool
}

// A Charge is one limit and one cost. A cost of 0 is a peek: it reads and never writes.
type Charge struct {
	Meter *Meter
	Cost  int64
}

// Bounds of a ticket.
const (
	MaxGroups  = 64
	MaxCharges = 16 // of a group
)

// Validate reports what no store could decide.
func (t *Ticket) Validate() error {
	if len(t.Groups) == 1 && len(t.Groups[0].Charges) == 1 && t.Now >= 0 && t.Now <= MaxInstant && t.MaxDelay >= 0 {
		return t.validateCharge(0, 0) // nearly every ticket is like this
	}
	return t.validate()
}

func (t *Ticket) validate() error {
	if t.Now < 0 || t.Now > MaxInstant {
		return fmt.Errorf("%w ticket: now %d is not from 0 to %d µs", ErrInvalid, t.Now, MaxInstant)
	}
	if t.MaxDelay < 0 {
		return fmt.Errorf("%w ticket: max delay %v is negative", ErrInvalid, t.MaxDelay)
	}
	if len(t.Groups) == 0 || len(t.Groups) > MaxGroups {
		return fmt.Errorf("%w ticket: %d groups, must be from 1 to %d", ErrInvalid, len(t.Groups), MaxGroups)
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if len(g.Charges) == 0 || len(g.Charges) > MaxCharges {
			return fmt.Errorf("%w ticket: group %d has %d charges, must be from 1 to %d", ErrInvalid, i, len(g.Charges), MaxCharges)
		}
		for j := range g.Charges {
			if err := t.validateCharge(i, j); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Ticket) validateCharge(i, j int) error {
	g := &t.Groups[i]
	c := g.Charges[j]
	switch {
	case c.Meter == nil:
		return fmt.Errorf("%w ticket: group %d charge %d has no meter", ErrInvalid, i, j)
	case c.Cost < 0 || c.Cost > MaxCount:
		return fmt.Errorf("%w ticket: group %d charge %d: cost %d is not from 0 to %d", ErrInvalid, i, j, c.Cost, int64(MaxCount))
	case c.Meter.Kind == KindLeases && c.Cost > 0 && t.Nonce == 0:
		return fmt.Errorf("%w ticket: group %d charge %d takes a lease and the ticket has no nonce to name it", ErrInvalid, i, j)
	}
	// Charges that are weighed before any is taken must not be of the same state. Groups that
	// are alone are taken one after the other and may be.
	for k := range j {
		if g.Charges[k].Meter.Fingerprint == c.Meter.Fingerprint {
			return fmt.Errorf("%w ticket: group %d charges %q twice; give one limit another ordinal", ErrInvalid, i, c.Meter)
		}
	}
	if g.Alone {
		return nil
	}
	for k := range i {
		other := &t.Groups[k]
		if other.Alone || other.Subject != g.Subject {
			continue
		}
		for l := range other.Charges {
			if other.Charges[l].Meter.Fingerprint == c.Meter.Fingerprint {
				return fmt.Errorf("%w ticket: groups %d and %d charge %q of the same subject", ErrInvalid, k, i, c.Meter)
			}
		}
	}
	return nil
}

// An Outcome is what became of a ticket. Reuse one to decide without allocating.
type Outcome struct {
	Now       Instant // the instant it was decided at
	Allowed   bool    // every group that is not alone passed, and all of them were charged
	Groups    []GroupOutcome
	Decisions []Decision // one for each charge, in the ticket's order
}

// A GroupOutcome is what became of a group.
type GroupOutcome struct {
	Allowed bool // every charge of the group passed
	Taken   bool // and was charged, as no other group stood in the way

	// FirmUntil is how long a denial cannot turn into a pass by anything but an operator's
	// hand; 0 where it may: a lease can be released, a denied call that is counted moves the end.
	FirmUntil Instant
}

// Found is what a store found for one charge: whether it passes by itself, and its state as the
// call left it.
type Found struct {
	State  State
	Passes bool
}

// Together tells whether the groups that stand or fall together all pass.
func (t *Ticket) Together(found []Found) bool {
	i := 0
	for g := range t.Groups {
		group := &t.Groups[g]
		for range group.Charges {
			if !group.Alone && !found[i].Passes {
				return false
			}
			i++
		}
	}
	return true
}

// Settle fills the outcome from what the store found for each charge, in the ticket's order.
func (o *Outcome) Settle(t *Ticket, now Instant, found []Found) {
	o.Now = now
	o.Allowed = t.Together(found)
	o.Groups = resize(o.Groups, len(t.Groups))
	o.Decisions = resize(o.Decisions, len(found))
	at := 0
	for i := range t.Groups {
		end := at + len(t.Groups[i].Charges)
		o.settleGroup(t, i, found[at:end], o.Decisions[at:end])
		at = end
	}
}

// resize returns a slice of n elements, the same if it is large enough; what they hold is of no account.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

func (o *Outcome) settleGroup(t *Ticket, i int, found []Found, decisions []Decision) {
	g := &t.Groups[i]
	allowed := true
	for j := range found {
		allowed = allowed && found[j].Passes
	}
	group := GroupOutcome{Allowed: allowed, Taken: allowed && (g.Alone || o.Allowed)}
	for j := range found {
		c, d := &g.Charges[j], &decisions[j]
		c.Meter.report(d, found[j].State, o.Now, c.Cost, found[j].Passes, group.Taken, t.MaxDelay)
		if !d.Allowed && c.Meter.firm() {
			until := MaxInstant
			if d.RetryAfter != Never {
				until = o.Now.Add(d.RetryAfter)
			}
			group.FirmUntil = max(group.FirmUntil, until)
		}
	}
	o.Groups[i] = group
}

// firm reports whether a denial by this meter holds until its retry-after.
func (m *Meter) firm() bool { return m.Kind != KindLeases && !m.CountDenied }

package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A Store decides tickets atomically. Stores differ in where state lives, never in what they
// decide: package storetest is the contract as a suite.
//
// A denial is an answer, not an error. An error means that the store could not answer, and wraps
// [ErrUnavailable], or that nobody could, and wraps [algorithm.ErrInvalid]; the outcome is then meaningless.
// A charge whose error wraps ErrUnavailable may have been taken: it must not be sent again.
//
// What a store can do beside deciding (giving back, inspecting, resetting) is said by further
// small interfaces. What decides before, after or instead of a store (a cache of denials, a
// breaker, leased permits) is a Store around a Store.
type Store interface {
	Take(ctx context.Context, t *Ticket, out *Outcome) error
}

// A Settler closes and prolongs reservations and leases. A settlement for which there is nothing
// fails with [ErrNoReservation], one that was done before in another way with [ErrClosed]; both
// leave every counter as it was. To release a lease that is gone is no error, only in vain.
type Settler interface {
	Settle(ctx context.Context, s *Settlement, out *Settled) error
}

// A Banner bans by hand.
type Banner interface {
	Ban(ctx context.Context, b *Ban) (until algorithm.Instant, err error)
}

// A Ban is set by hand: for Length from now on, whatever was before. A Length of 0 lifts.
type Ban struct {
	Now     algorithm.Instant // as a ticket's
	Subject Subject
	Penalty *algorithm.Penalty
	Length  time.Duration
}

// A Resetter forgets a subject: what the group's charges and its replay budget have counted, strikes
// and ban, also if the group has no penalty (any more), and reservations. Records of calls and of late
// charges are left to their end, which is near.
type Resetter interface {
	Reset(ctx context.Context, g *Group) error
}

// An Inspector tells what a peek does not: the reservations of a subject that are still
// remembered, at most so many, and how many there are. See [ValidateInspection].
type Inspector interface {
	Reservations(ctx context.Context, now algorithm.Instant, s Subject, most int) (_ []Reservation, total int64, err error)
}

// A Lister lists the subjects of a rule, page by page, without keeping others waiting.
type Lister interface {
	// Keys returns a page and where the next begins; the empty cursor is the beginning, and
	// the end. A page looks at about so many keys and may hold none. A subject that lives all
	// the while is listed at least once.
	Keys(ctx context.Context, tag RuleTag, cursor string, about int) (page []string, next string, err error)

	// Size returns how many keys there are of all rules: how far a listing has to go.
	Size(ctx context.Context) (int64, error)
}

// A BatchStore decides many tickets in one call, each by itself, sooner than one by one.
type BatchStore interface {
	TakeEach(ctx context.Context, turns []Turn)
}

// A FullStore has every ability that a node uses of a store that it shares with others. What decides before
// or instead of a store embeds one, and changes only what it is about.
type FullStore interface {
	Store
	Settler
	Banner
	Resetter
	Inspector
	Lister
	LateCharger
}

// A Turn is a ticket of a batch, and what became of it.
type Turn struct {
	Ticket  Ticket
	Outcome Outcome // meaningless with an error
	Err     error
}

// Validate reports what no store could do.
func (b *Ban) Validate() error {
	switch {
	case b.Penalty == nil:
		return fmt.Errorf("%w ban: the rule has no penalty", algorithm.ErrInvalid)
	case b.Now < 0 || b.Now > algorithm.MaxInstant:
		return fmt.Errorf("%w ban: now %d is not from 0 to %d µs", algorithm.ErrInvalid, b.Now, algorithm.MaxInstant)
	case b.Length != 0 && (b.Length < algorithm.MinWindow || b.Length > algorithm.MaxWindow):
		return fmt.Errorf("%w ban: for %v, must be from %v to %v, or 0 to lift it", algorithm.ErrInvalid, b.Length, algorithm.MinWindow, algorithm.MaxWindow)
	}
	return nil
}

// ValidateReset reports what no store can reset.
func (g *Group) ValidateReset() error {
	if len(g.Charges) > MaxCharges {
		return fmt.Errorf("%w reset: %d charges, at most %d", algorithm.ErrInvalid, len(g.Charges), MaxCharges)
	}
	for i := range g.Charges {
		if g.Charges[i].Meter == nil {
			return fmt.Errorf("%w reset: charge %d has no meter", algorithm.ErrInvalid, i)
		}
	}
	return nil
}

// ValidateInspection reports what no store can tell.
func ValidateInspection(now algorithm.Instant, most int) error {
	switch {
	case now < 0 || now > algorithm.MaxInstant:
		return fmt.Errorf("%w reservations: now %d is not from 0 to %d µs", algorithm.ErrInvalid, now, algorithm.MaxInstant)
	case most < 0:
		return fmt.Errorf("%w reservations: at most %d asked for, must be 0 or more", algorithm.ErrInvalid, most)
	}
	return nil
}

// Apply returns what the ban makes of a penalty's state.
func (b *Ban) Apply(s algorithm.PenaltyState, now algorithm.Instant) algorithm.PenaltyState {
	return b.Penalty.Impose(s, now, b.Length)
}

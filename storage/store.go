package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A Store decides tickets atomically. Stores differ in where state lives, never in what they decide: package
// storetest is the contract as a test suite.
//
// A denial is an answer, not an error. An error wraps [ErrUnavailable] if the store could not answer, or
// [algorithm.ErrInvalid] if no store could; the outcome is then meaningless. A charge whose error wraps
// ErrUnavailable may have been taken: it must not be sent again.
//
// Optional abilities of a store (giving back, inspecting, resetting) are separate small interfaces. What
// decides before, after or instead of a store (a deny cache, a circuit breaker, leases) is a Store that wraps
// a Store.
type Store interface {
	Take(ctx context.Context, t *Ticket, out *Outcome) error
}

// A Settler settles, releases and renews reservations and permits. A settlement without a reservation fails
// with [ErrNoReservation], and one that was already closed in another way with [ErrClosed]; both leave every
// counter unchanged. Releasing an expired permit is a no-op.
type Settler interface {
	Settle(ctx context.Context, s *Settlement, out *SettleOutcome) error
}

// A Banner sets and lifts bans manually.
type Banner interface {
	Ban(ctx context.Context, b *Ban) (until algorithm.Instant, err error)
}

// A Ban is a manual ban: it lasts for Length from now on and replaces any earlier ban. A Length of 0 lifts
// the ban.
type Ban struct {
	Now     algorithm.Instant // as in a Ticket
	Subject Subject
	Penalty *algorithm.Penalty
	Length  time.Duration
}

// A Resetter clears the state of a subject: the counters of the group's charges and of its replay budget,
// strikes and ban (even if the group no longer has a penalty), and reservations. It leaves the records of
// requests and late charges, which expire soon.
type Resetter interface {
	Reset(ctx context.Context, g *Group) error
}

// An Inspector returns what a peek does not: the reservations of a subject that are still remembered, up to a
// maximum, and how many there are. See [ValidateInspection].
type Inspector interface {
	Reservations(ctx context.Context, now algorithm.Instant, s Subject, most int) (_ []Reservation, total int64, err error)
}

// A Lister lists the subjects of a rule, page by page, without blocking other requests.
type Lister interface {
	// Keys returns a page and the cursor of the next; the empty cursor is both the beginning and the end. A
	// page scans roughly the given number of keys and may be empty. A subject that exists during the whole
	// listing is listed at least once.
	Keys(ctx context.Context, tag RuleTag, cursor string, about int) (page []string, next string, err error)

	// Size returns the number of keys of all rules, which is how many a listing has to scan.
	Size(ctx context.Context) (int64, error)
}

// A SingleStore decides a rule with a single charge without tickets, at less cost.
type SingleStore interface {
	// Single returns a decider for one meter under a rule. It is nil if such charges need tickets, or if s is
	// not this store itself but one that embeds it, and may decide in its own way.
	Single(s Store, rule RuleHasher, m *algorithm.Meter) Single
}

// A Single decides charges of one meter under one rule, as Take does for a ticket that has only this charge. It
// returns the state after the request and what [algorithm.Meter.ReportFixed] makes a decision of. An instant of 0
// means the store's clock.
type Single interface {
	Take(ctx context.Context, now algorithm.Instant, key string, cost int64, maxDelay time.Duration) (algorithm.State, algorithm.FixedResult, error)
}

// A SeveralStore can decide several charges of one subject without tickets, which takes half the time.
type SeveralStore interface {
	// Several is [SingleStore.Single] for several meters.
	Several(s Store, rule RuleHasher, meters []*algorithm.Meter) Several
}

// A Several decides charges of several meters under one rule, all of them or none, as Take does for a ticket that has
// only these. It returns the decision of the strictest, with the verdict on all of them and the longest delay. If ok is
// false, it has changed nothing, and this request needs a ticket.
type Several interface {
	Take(ctx context.Context, key string, cost int64) (d algorithm.Decision, ok bool)
}

// A BatchStore decides many tickets in one function call, each by itself, faster than one by one.
type BatchStore interface {
	TakeEach(ctx context.Context, turns []BatchItem)
}

// A FullStore has every ability that a node needs from a shared store. A wrapper that decides before or
// instead of a store embeds one and overrides only the methods it changes.
type FullStore interface {
	Store
	Settler
	Banner
	Resetter
	Inspector
	Lister
	LateCharger
}

// A BatchItem is a ticket of a batch, and its outcome.
type BatchItem struct {
	Ticket  Ticket
	Outcome Outcome // meaningless with an error
	Err     error
}

// Validate returns an error if no store can set the ban.
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

// ValidateReset returns an error if no store can reset the group.
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

// ValidateInspection returns an error if no store can answer the inspection.
func ValidateInspection(now algorithm.Instant, most int) error {
	switch {
	case now < 0 || now > algorithm.MaxInstant:
		return fmt.Errorf("%w reservations: now %d is not from 0 to %d µs", algorithm.ErrInvalid, now, algorithm.MaxInstant)
	case most < 0:
		return fmt.Errorf("%w reservations: at most %d asked for, must be 0 or more", algorithm.ErrInvalid, most)
	}
	return nil
}

// Apply returns a penalty's state after the ban.
func (b *Ban) Apply(s algorithm.PenaltyState, now algorithm.Instant) algorithm.PenaltyState {
	return b.Penalty.Impose(s, now, b.Length)
}

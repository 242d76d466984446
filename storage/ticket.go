package storage

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A Ticket is one call as a store sees it: its groups are taken together or not at all.
type Ticket struct {
	// Now is the instant to decide at; 0 is the store's clock. Tests and replays set it. A
	// store never expires state on the real clock that was written at a given instant.
	Now algorithm.Instant

	// MaxDelay is how long the caller can wait for a leaky bucket. A door that cannot wait
	// leaves it 0 and is denied instead.
	MaxDelay time.Duration

	// Nonce names what this call takes, so that it can be given back even if the reply was
	// lost: a random number, needed when a charge is of a concurrency limit.
	Nonce uint64

	// Denied says that the call is denied already, elsewhere: whatever its groups say, nothing of
	// it is taken, except by those that are alone. It still counts as a call: as a strike, and
	// where denied calls are counted.
	Denied bool

	Groups []Group
}

// A Group is what one matching rule asks: a subject, its guards and its charges. Within a group a
// ban comes first, then a duplicate is recognised, then the charges are weighed, and a denial by them
// is a strike. A duplicate's charges are only looked at, except for permits of a concurrency limit.
type Group struct {
	Subject Subject
	Charges []algorithm.Charge

	Penalty *algorithm.Penalty // nil: the rule bans nobody
	Dedup   *algorithm.Dedup   // nil: the rule recognises no repeats
	Call    CallID             // which call this is, for Dedup; zero: unlike any other
	Reserve time.Duration      // what is taken can be settled or released for so long; 0: it cannot

	// Alone marks a group that is all-or-nothing by itself: decided after the others, whatever
	// they said, and without a say in the ticket's verdict. Shadow rules are alone.
	Alone bool

	// Leased allows the group to be decided by permits that were taken ahead. Stores that keep
	// state ignore it; package engine/lease is the one around them that does not.
	Leased bool

	// Returnable says that what others took under this rule may be given back, so that no denial by
	// its limits is firm.
	Returnable bool
}

// Guarded tells groups that are more than their charges.
func (g *Group) Guarded() bool {
	return g.Penalty != nil || g.Dedup != nil || g.Reserve != 0
}

// Spends tells whether any charge has a cost; a group without is a peek.
func (g *Group) Spends() bool {
	for i := range g.Charges {
		if g.Charges[i].Cost > 0 {
			return true
		}
	}
	return false
}

// Remembers tells whether the group looks for a repeat. Peeks do not.
func (g *Group) Remembers() bool {
	return g.Dedup != nil && g.Call != (CallID{}) && g.Spends()
}

// Names tells whether what the group takes can be given back under the ticket's nonce.
func (g *Group) Names() bool {
	if g.Reserve != 0 {
		return g.Spends()
	}
	return g.takesPermits()
}

func (g *Group) takesPermits() bool {
	for i := range g.Charges {
		if g.Charges[i].TakesPermit() {
			return true
		}
	}
	return false
}

// IsStrike tells whether the group's own charges deny it in a way that counts against its subject.
// What could never pass is a mistake, not an attempt.
func (g *Group) IsStrike(found []Found) (strike bool) {
	if g.Penalty == nil {
		return false
	}
	for i := range g.Charges {
		c := &g.Charges[i]
		if !c.Meter.CanEver(c.Need()) {
			return false
		}
		strike = strike || c.Cost > 0 && !found[i].Passes
	}
	return strike
}

// Bounds of a ticket.
const (
	MaxGroups  = 64
	MaxCharges = 16 // of a group
)

// Validate reports what no store could decide.
func (t *Ticket) Validate() error {
	if len(t.Groups) == 1 && len(t.Groups[0].Charges) == 1 && t.Groups[0].Reserve == 0 && t.Now >= 0 && t.Now <= algorithm.MaxInstant && t.MaxDelay >= 0 {
		return t.validateCharge(0, 0) // nearly every ticket is like this
	}
	return t.validate()
}

func (t *Ticket) validate() error {
	if t.Now < 0 || t.Now > algorithm.MaxInstant {
		return fmt.Errorf("%w ticket: now %d is not from 0 to %d µs", algorithm.ErrInvalid, t.Now, algorithm.MaxInstant)
	}
	if t.MaxDelay < 0 {
		return fmt.Errorf("%w ticket: max delay %v is negative", algorithm.ErrInvalid, t.MaxDelay)
	}
	if len(t.Groups) == 0 || len(t.Groups) > MaxGroups {
		return fmt.Errorf("%w ticket: %d groups, must be from 1 to %d", algorithm.ErrInvalid, len(t.Groups), MaxGroups)
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if len(g.Charges) == 0 || len(g.Charges) > MaxCharges {
			return fmt.Errorf("%w ticket: group %d has %d charges, must be from 1 to %d", algorithm.ErrInvalid, i, len(g.Charges), MaxCharges)
		}
		if err := t.validateGuards(i); err != nil {
			return err
		}
		for j := range g.Charges {
			if err := t.validateCharge(i, j); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Ticket) validateGuards(i int) error {
	g := &t.Groups[i]
	if g.Reserve != 0 && !isReserveTime(g.Reserve) {
		return fmt.Errorf("%w ticket: group %d: reserved for %v, must be from %v to %v", algorithm.ErrInvalid, i, g.Reserve, algorithm.MinWindow, MaxReserve)
	}
	if g.Reserve != 0 && t.Nonce == 0 {
		return fmt.Errorf("%w ticket: group %d is a reservation and the ticket has no nonce to name it", algorithm.ErrInvalid, i)
	}
	// One subject has one ban and one memory of calls, and a nonce names one reservation of it.
	for k := range i {
		other := &t.Groups[k]
		if other.Subject == g.Subject && g.Guarded() && other.Guarded() {
			return fmt.Errorf("%w ticket: groups %d and %d guard the same subject", algorithm.ErrInvalid, k, i)
		}
	}
	return nil
}

func (t *Ticket) validateCharge(i, j int) error {
	g := &t.Groups[i]
	c := g.Charges[j]
	switch {
	case c.Meter == nil:
		return fmt.Errorf("%w ticket: group %d charge %d has no meter", algorithm.ErrInvalid, i, j)
	case c.Cost < 0 || c.Cost > algorithm.MaxCount:
		return fmt.Errorf("%w ticket: group %d charge %d: cost %d is not from 0 to %d", algorithm.ErrInvalid, i, j, c.Cost, int64(algorithm.MaxCount))
	case c.Meter.Kind == algorithm.KindLeases && c.Cost > 0 && t.Nonce == 0:
		return fmt.Errorf("%w ticket: group %d charge %d takes a lease and the ticket has no nonce to name it", algorithm.ErrInvalid, i, j)
	case c.Meter.CountAll && !g.Alone:
		return fmt.Errorf("%w ticket: group %d charge %d: %q counts all requests and must be alone", algorithm.ErrInvalid, i, j, c.Meter)
	case c.Overdraw && (c.Meter.Kind == algorithm.KindLeaky || c.Meter.Kind == algorithm.KindLeases):
		return fmt.Errorf("%w ticket: group %d charge %d: %q cannot be overdrawn", algorithm.ErrInvalid, i, j, c.Meter)
	}
	if g.Reserve != 0 {
		if err := c.Meter.Returns(); err != nil {
			return fmt.Errorf("%w ticket: group %d charge %d: %w", algorithm.ErrInvalid, i, j, err)
		}
	}
	return t.validateState(i, j)
}

// validateState refuses two charges of one state that are weighed before either is taken. Groups that are alone
// are taken one after the other and may share a state.
func (t *Ticket) validateState(i, j int) error {
	g := &t.Groups[i]
	c := g.Charges[j]
	for k := range j {
		if g.Charges[k].Meter.Fingerprint == c.Meter.Fingerprint {
			return fmt.Errorf("%w ticket: group %d charges %q twice; give one limit another ordinal", algorithm.ErrInvalid, i, c.Meter)
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
				return fmt.Errorf("%w ticket: groups %d and %d charge %q of the same subject", algorithm.ErrInvalid, k, i, c.Meter)
			}
		}
	}
	return nil
}

// An Outcome is what became of a ticket. Reuse one to decide without allocating.
type Outcome struct {
	Now       algorithm.Instant // the instant it was decided at
	Allowed   bool              // every group that is not alone passed, and all of them were charged
	Groups    []GroupOutcome
	Decisions []algorithm.Decision // one for each charge, in the ticket's order

	// States are what the decisions tell about, one for each charge, as the call left it: what a
	// later call will find, if nothing happens before it.
	States []algorithm.State

	// Cached says that the store was not asked: this is what it said before. Package
	// engine/denycache sets it.
	Cached bool
}

// A GroupOutcome is what became of a group.
type GroupOutcome struct {
	Allowed bool // every charge of the group passed
	Taken   bool // it was charged: it passed and no other group stood in the way, or its limit counts all

	// FirmUntil is how long a denial cannot turn into a pass by anything but an operator's
	// hand; 0 where it may: a lease can be released, a reservation settled, a repeat recognised,
	// and a denied call that is counted, or is a strike, moves the end.
	FirmUntil algorithm.Instant

	BannedUntil algorithm.Instant // 0: not banned. The call that brings the ban on is told too.
	Strikes     int64             // that count against the subject, this call's included
	Bans        int64             // so far, until they are forgiven

	Leased bool   // decided by permits that were taken ahead
	Nonce  uint64 // under which what this request took can be given back; 0: nothing can

	// Replay marks a duplicate of an allowed request. Nothing was charged, but it takes permits of its
	// own, or is denied. Original is the nonce of the request it duplicates, 0 if that request took
	// nothing that can be given back: it may still be running.
	Replay   bool
	Original uint64
}

// Found is what a store found for one charge: whether it passes by itself, its state as the call
// left it, and, of a charge that overdraws, how much was taken.
type Found struct {
	State  algorithm.State
	Amount int64
	Passes bool
}

// A Sight is what a store found for the guards of a group.
type Sight struct {
	Penalty algorithm.PenaltyState // as the call left it
	Banned  bool                   // before the call
	Replay  bool
	First   algorithm.Record // of the call that this one repeats
}

// Together tells whether the groups that stand or fall together all pass. Without guards, sights
// may be nil.
func (t *Ticket) Together(found []Found, sights []Sight) bool {
	if t.Denied {
		return false
	}
	for i := range t.Groups {
		g := &t.Groups[i]
		if !g.Alone && !g.Passes(found[:len(g.Charges)], sightOf(sights, i)) {
			return false
		}
		found = found[len(g.Charges):]
	}
	return true
}

func sightOf(sights []Sight, i int) *Sight {
	if sights == nil {
		return nil
	}
	return &sights[i]
}

// Passes reports whether the group passes by itself. A duplicate is denied only by the permits it has to
// take. Without guards, sight may be nil.
func (g *Group) Passes(found []Found, sight *Sight) bool {
	if sight != nil && sight.Banned {
		return false
	}
	replay := sight != nil && sight.Replay
	for j := range found {
		if !found[j].Passes && (!replay || g.Charges[j].TakesPermit()) {
			return false
		}
	}
	return true
}

// Settle fills the outcome from what the store found for each charge and each group, in the
// ticket's order. Without guards, sights may be nil.
func (o *Outcome) Settle(t *Ticket, now algorithm.Instant, found []Found, sights []Sight) {
	o.Now = now
	o.Allowed = t.Together(found, sights)
	o.Groups = resize(o.Groups, len(t.Groups))
	o.Decisions = resize(o.Decisions, len(found))
	o.States = resize(o.States, len(found))
	for i := range found {
		o.States[i] = found[i].State
	}
	at := 0
	for i := range t.Groups {
		end := at + len(t.Groups[i].Charges)
		o.settleGroup(t, i, found[at:end], sightOf(sights, i), o.Decisions[at:end])
		at = end
	}
}

// resize returns a slice of n elements, the same if it is large enough; their contents are not cleared.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// settleGroup reports the charges of one group and what became of it.
//
//gocyclo:ignore every decision runs it: one pass over the charges, without further calls
func (o *Outcome) settleGroup(t *Ticket, i int, found []Found, sight *Sight, decisions []algorithm.Decision) {
	g := &t.Groups[i]
	allowed := g.Passes(found, sight)
	replay := sight != nil && sight.Replay
	group := GroupOutcome{Allowed: allowed, Taken: allowed && (g.Alone || o.Allowed)}
	for j := range found {
		c, d := &g.Charges[j], &decisions[j]
		if replay && !c.TakesPermit() {
			c.Meter.ReportTo(d, o.Now, &algorithm.Result{State: found[j].State, Passes: true})
			if c.Meter.Kind == algorithm.KindLeaky && group.Taken {
				d.Delay = max(0, sight.First.Departs.Sub(o.Now))
			}
			continue
		}
		cost := c.Need()
		if c.Overdraw && group.Taken {
			cost = found[j].Amount
		}
		c.Meter.ReportTo(d, o.Now, &algorithm.Result{State: found[j].State, Cost: cost, Passes: found[j].Passes, Taken: group.Taken, MaxDelay: t.MaxDelay})
		group.Allowed = group.Allowed && d.Allowed // or it was charged and is over all the same
		if !d.Allowed && c.Meter.IsFirm() && !g.Returnable {
			group.FirmUntil = max(group.FirmUntil, retryAt(d, o.Now))
		}
	}
	if group.Taken && (g.Names() && !replay || g.takesPermits()) {
		group.Nonce = t.Nonce
	}
	if g.Guarded() {
		group.guarded(g, o.Now, sight, decisions)
	}
	o.Groups[i] = group
}

// retryAt is when the decision's retry passes.
func retryAt(d *algorithm.Decision, now algorithm.Instant) algorithm.Instant {
	if d.RetryAfter == algorithm.Never {
		return algorithm.MaxInstant
	}
	return now.Add(d.RetryAfter)
}

// guarded adds what the guards say.
func (o *GroupOutcome) guarded(g *Group, now algorithm.Instant, sight *Sight, decisions []algorithm.Decision) {
	o.FirmUntil = 0
	if sight.Replay {
		o.Replay, o.Original = true, sight.First.Nonce
	}
	if g.Penalty == nil {
		return
	}
	standing := g.Penalty.Standing(sight.Penalty, now)
	o.Strikes, o.Bans = standing.Strikes, standing.Bans
	if standing.BannedUntil == 0 {
		return
	}
	o.BannedUntil, o.FirmUntil = standing.BannedUntil, standing.BannedUntil
	for j := range decisions { // a retry has to wait for the ban, and for its limits as before
		d := &decisions[j]
		if sight.Banned {
			d.Allowed = false
		}
		if !d.Allowed && d.RetryAfter != algorithm.Never {
			d.RetryAfter = max(d.RetryAfter, standing.BannedUntil.Sub(now))
		}
	}
}

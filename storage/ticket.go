package storage

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A Ticket is what one request asks of a store: its groups are charged all together or not at all.
type Ticket struct {
	// Now is the instant to decide at; 0 means the store's clock. Tests and replays set it. If an instant is
	// given, a store never expires the state written at it by the real clock.
	Now algorithm.Instant

	// MaxDelay is how long the client can wait for a leaky bucket. An API that cannot hold requests leaves it
	// 0: a request that would have to wait is denied.
	MaxDelay time.Duration

	// Nonce names what this request takes, so that it can be given back even if the reply was lost. It is a
	// random number, and required if a charge is for a concurrency limit.
	Nonce uint64

	// Denied says that the request is already denied elsewhere: whatever its groups decide, nothing is
	// charged, except in groups that are alone. It still counts as a request: as a strike, and where denied
	// requests are counted.
	Denied bool

	Groups []Group
}

// A Group is what one matching rule asks: a subject, its guards and its charges. Within a group a ban is
// checked first, then a duplicate is recognised, then the charges are decided; a denial by them is a strike.
// The charges of a duplicate are only peeked at, except permits of a concurrency limit.
type Group struct {
	Subject Subject
	Charges []algorithm.Charge

	Penalty *algorithm.Penalty // nil: the rule does not ban
	Dedup   *algorithm.Dedup   // nil: the rule does not recognise duplicates
	Call    CallID             // identifies the request, for Dedup; zero: never a duplicate
	Reserve time.Duration      // how long what is taken can be settled or released; 0: it cannot

	// RefundOnly says that the reservation is not settled, and only kept so that the request can be refunded by its
	// name. A store without room may forget the oldest.
	RefundOnly bool

	// MaxCost is what the request may cost in the end if that is known only afterwards; otherwise 0. A duplicate is not
	// settled, so it uses as much of the budget of duplicates.
	MaxCost int64

	// Alone marks a group that is all-or-nothing by itself: it is decided after the others, whatever they
	// decided, and does not affect the ticket's outcome. Shadow rules are alone.
	Alone bool

	// Leased allows the group to be decided from a lease. Stores that keep state ignore it; package
	// engine/lease, which wraps them, does not.
	Leased bool

	// Returnable says that what other requests took under this rule may be given back, so that no denial by
	// its limits is firm.
	Returnable bool
}

// Guarded reports whether the group has more than its charges: a penalty, dedup or a reservation.
func (g *Group) Guarded() bool {
	return g.Penalty != nil || g.Dedup != nil || g.Reserve != 0
}

// Spends reports whether any charge has a cost; a group without one is a peek.
func (g *Group) Spends() bool {
	for i := range g.Charges {
		if g.Charges[i].Cost > 0 {
			return true
		}
	}
	return false
}

// Remembers reports whether the group checks for a duplicate. Peeks do not.
func (g *Group) Remembers() bool {
	return g.Dedup != nil && g.Call != (CallID{}) && g.Spends()
}

// ReplayCost returns what a duplicate of the group is charged to the budget of duplicates: the largest of its costs, so
// that the budget holds whatever the duplicate costs. A permit counts as 1.
func (g *Group) ReplayCost() int64 {
	cost := min(g.MaxCost, algorithm.MaxCount)
	for i := range g.Charges {
		c := &g.Charges[i]
		if c.Meter.Kind == algorithm.KindLeases {
			cost = max(cost, min(c.Cost, 1))
		} else {
			cost = max(cost, c.Cost)
		}
	}
	return cost
}

// Names reports whether what the group takes can be given back under the ticket's nonce.
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

// IsStrike reports whether the group's own charges deny it in a way that counts against its subject. A cost
// that can never pass is an error, not an attempt.
func (g *Group) IsStrike(found []ChargeResult) (strike bool) {
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

// Validate returns an error if no store can decide the ticket.
func (t *Ticket) Validate() error {
	if len(t.Groups) == 1 && len(t.Groups[0].Charges) == 1 && t.Groups[0].Reserve == 0 && t.Now >= 0 && t.Now <= algorithm.MaxInstant && t.MaxDelay >= 0 {
		return t.validateCharge(0, 0) // nearly every ticket takes this path
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
	// One subject has one ban and one memory of requests, and a nonce names one reservation of it.
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

// validateState rejects two charges of one state that are checked before either is taken. Groups that are
// alone are charged one after the other and may share a state.
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

// An Outcome is the result of a ticket. Reuse one to decide without allocating.
type Outcome struct {
	Now       algorithm.Instant // when it was decided
	Allowed   bool              // every group that is not alone passed, and all of them were charged
	Groups    []GroupOutcome
	Decisions []algorithm.Decision // one for each charge, in the ticket's order

	// States are the states that the decisions describe, one for each charge, after the request: what a later
	// request finds if nothing else happens.
	States []algorithm.State

	// Cached says that the store was not asked, and that this is an earlier answer. Package engine/denycache
	// sets it.
	Cached bool
}

// A GroupOutcome is the result of a group.
type GroupOutcome struct {
	Allowed bool // every charge of the group passed
	Taken   bool // it was charged: it passed and no other group denied, or its limit counts all requests

	// FirmUntil is until when only an operator can turn a denial into a pass. It is 0 if something else can:
	// a permit can be released, a reservation settled, a duplicate recognised, a lease may still be spent on
	// this node, and a denied request that is counted, or is a strike, moves the end.
	FirmUntil algorithm.Instant

	BannedUntil algorithm.Instant // 0: not banned. Also set for the request that causes the ban.
	Strikes     int64             // that count against the subject, including this request's
	Bans        int64             // so far, until they are forgiven

	Leased bool   // decided from a lease
	Nonce  uint64 // under which what this request took can be given back; 0: nothing can

	// Replay marks a duplicate of an allowed request. Nothing is charged, but it takes permits of its own, or
	// is denied. Original is the nonce of the request it duplicates, which may still be running; 0 if that
	// request took nothing that can be given back.
	Replay   bool
	Original uint64
}

// ChargeResult is a store's result for one charge: whether it passes by itself, its state after the request, and,
// for a charge that overdraws, how much was taken.
type ChargeResult struct {
	State  algorithm.State
	Amount int64
	Passes bool
}

// A GuardResult is a store's result for the guards of a group.
type GuardResult struct {
	Penalty algorithm.PenaltyState // after the request
	Banned  bool                   // before the request
	Replay  bool
	First   algorithm.Record // of the request that this one duplicates
}

// Together reports whether all groups that are not alone pass. Without guards, sights may be nil.
func (t *Ticket) Together(found []ChargeResult, sights []GuardResult) bool {
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

func sightOf(sights []GuardResult, i int) *GuardResult {
	if sights == nil {
		return nil
	}
	return &sights[i]
}

// Passes reports whether the group passes by itself. A duplicate is denied only by the permits it has to
// take. Without guards, sight may be nil.
func (g *Group) Passes(found []ChargeResult, sight *GuardResult) bool {
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

// Settle fills in the outcome from the store's results for each charge and each group, in the ticket's order.
// Without guards, sights may be nil.
func (o *Outcome) Settle(t *Ticket, now algorithm.Instant, found []ChargeResult, sights []GuardResult) {
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

// SettleSingle is Settle for a ticket of one group with one charge of a fixed-size kind, which is not
// guarded, overdraws nothing and is not denied elsewhere.
func (o *Outcome) SettleSingle(t *Ticket, after algorithm.State, r algorithm.FixedResult) {
	g := &t.Groups[0]
	c := &g.Charges[0]
	o.Now = r.Now
	o.Allowed = r.Passes || g.Alone
	if len(o.Groups) != 1 || len(o.States) != 1 || len(o.Decisions) != 1 { // not as the last ticket left it
		o.Groups, o.States, o.Decisions = resize(o.Groups, 1), resize(o.States, 1), resize(o.Decisions, 1)
	}
	o.States[0] = after
	d := &o.Decisions[0]
	c.Meter.ReportFixed(d, after, r, c.Cost, t.MaxDelay)
	group := &o.Groups[0]
	*group = GroupOutcome{} // in place: a literal would be copied
	group.Allowed, group.Taken = d.Allowed, r.Passes
	if !d.Allowed && c.Meter.IsFirm() && !g.Returnable {
		group.FirmUntil = retryAt(d, r.Now)
	}
}

// resize returns a slice of n elements. It reuses s if that is large enough, and does not clear it.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	return make([]T, n)
}

// settleGroup fills in the decisions of one group's charges and the group's outcome.
//
//gocyclo:ignore every decision runs it: one pass over the charges, without further calls
func (o *Outcome) settleGroup(t *Ticket, i int, found []ChargeResult, sight *GuardResult, decisions []algorithm.Decision) {
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
		group.Allowed = group.Allowed && d.Allowed // it may have been charged and still be over the limit
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

// retryAt returns when a retry of the decision passes.
func retryAt(d *algorithm.Decision, now algorithm.Instant) algorithm.Instant {
	if d.RetryAfter == algorithm.Never {
		return algorithm.MaxInstant
	}
	return now.Add(d.RetryAfter)
}

// guarded adds the results of the guards.
func (o *GroupOutcome) guarded(g *Group, now algorithm.Instant, sight *GuardResult, decisions []algorithm.Decision) {
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

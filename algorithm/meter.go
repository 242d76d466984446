package algorithm

import (
	"hash/fnv"
	"math/bits"
	"time"
)

// A Kind is a representation of state: an Algorithm with its options resolved.
type Kind uint8

// The numbers are part of what is sent to Redis and must not change.
const (
	KindWindow   Kind = 1 // fixed windows of one length
	KindCalendar Kind = 2 // fixed windows of calendar periods
	KindCounter  Kind = 3
	KindBucket   Kind = 4 // continuous
	KindInterval Kind = 5
	KindLeaky    Kind = 6
	KindLog      Kind = 7
	KindLeases   Kind = 8
	KindPenalty  Kind = 9  // of a [Penalty], not a meter
	kindBudget   Kind = 10 // in the fingerprint of a [Dedup]'s budget, which is of one of the kinds above
)

// PenaltyFingerprint names a penalty's state within its subject, as a meter's names its own.
const PenaltyFingerprint = uint64(KindPenalty) << kindShift

// Fixed reports whether state of this kind has a fixed size. If so, the [State] is complete; otherwise it
// summarises a list.
func (k Kind) Fixed() bool { return k != KindLog && k != KindLeases }

// A Meter is a valid Limit, with everything that a decision needs computed in advance. It is immutable and
// safe for concurrent use.
type Meter struct {
	limit Limit
	Constants
	calendar *calendar

	byCount, byTicks, byWindow divisor
}

// Constants are a meter's constants, for stores that decide outside this process.
type Constants struct {
	Kind        Kind
	CountDenied bool
	CountAll    bool   // stores count beyond the limit, up to MaxCount; see [Meter.IsOver]
	Fingerprint uint64 // 56 bits; names the state within its subject
	Count       int64  // L
	Capacity    int64  // L, B, Q+1 or N
	Window      int64  // W in µs; for a calendar period, an upper bound on its length, see [Meter.WindowAt]
	Tick        int64  // µs in a tick
	Ticks       int64  // W in ticks
	Overdraft   int64  // how far a charge that must be recorded may exceed Capacity
	Full        int64  // Capacity × Ticks where levels are kept in token × tick
	Most        int64  // the same for Capacity + Overdraft; without levels, just Capacity + Overdraft
	Drain       int64  // ticks (intervals for KindInterval) in which Most drains
	Life        int64  // µs after State.At until the state no longer matters
}

// State is what a store keeps for one meter and one subject. The zero State means "never seen".
//
//	          At                      Used                 Previous       FreeAt
//	window    start of the window     count
//	counter   start of the window     count                the one before
//	bucket    last charge             missing × tick
//	interval  start of the interval   missing
//	log       newest entry            sum in the window                   entry to wait for
//	leases    latest expiry           live                                expiry to wait for
//
// The start of a window or an interval may be any instant within it: [Meter.Weigh] returns its start. A
// storage.Follower dates adopted state by when it was true.
type State struct {
	At       Instant
	Used     int64   // how much of the capacity; for a continuous bucket, in token × tick
	Previous int64   // the count of the previous window
	FreeAt   Instant // for a list that denies, the entry that makes room when it leaves; otherwise 0
}

// StateOf decodes a state that a store keeps or returns as three integers: Previous and FreeAt share the
// last.
func (k Kind) StateOf(at Instant, used, last int64) State {
	if k.Fixed() {
		return State{At: at, Used: used, Previous: last}
	}
	return State{At: at, Used: used, FreeAt: Instant(last)}
}

// Compile checks the limit and computes its numbers.
func (l Limit) Compile() (*Meter, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	m := &Meter{limit: l}
	n := &m.Constants
	n.CountDenied = l.CountDenied
	n.Count = l.Count
	n.Capacity = l.capacity()
	if n.CountAll = l.CountAll; n.CountAll {
		n.Count, n.Capacity = MaxCount, MaxCount
	}
	n.Overdraft = l.Overdraft
	n.Most = n.Capacity + n.Overdraft
	n.Window = l.Window.Microseconds()
	n.Tick = l.unit().Microseconds()
	switch l.Algorithm {
	case FixedWindow:
		n.Kind = KindWindow
		if l.Period != NoPeriod {
			n.Kind = KindCalendar
			m.calendar = newCalendar(l.Period, l.Location)
			n.Window = longest(l.Period).Microseconds()
		}
		n.Life = n.Window
	case SlidingWindowCounter:
		n.Kind = KindCounter
		n.Life = 2 * n.Window
	case TokenBucket, LeakyBucket:
		n.Kind = KindBucket
		if l.Algorithm == LeakyBucket {
			n.Kind = KindLeaky
		}
		if l.Refill == Interval {
			n.Kind = KindInterval
			n.Drain = ceilDiv(n.Most, n.Count)
			n.Life = n.Drain * n.Window
			break
		}
		n.Full = n.Capacity * (n.Window / n.Tick)
		n.Most *= n.Window / n.Tick
		n.Drain = ceilDiv(n.Most, n.Count)
		n.Life = (n.Drain + 1) * n.Tick // a charge may fall anywhere within its tick
	case SlidingWindowLog:
		n.Kind = KindLog
		n.Life = n.Window
	case Concurrency:
		n.Kind = KindLeases
		n.Life = n.Window
	}
	n.Ticks = n.Window / n.Tick
	if n.Kind == KindCounter {
		n.Full = n.Capacity * n.Ticks
	}
	m.byCount, m.byTicks, m.byWindow = newDivisor(max(1, n.Count)), newDivisor(n.Ticks), newDivisor(n.Window) // a count of 0 divides nothing
	n.Fingerprint = l.fingerprint(n.Kind, n.Window)
	return m, nil
}

// MustCompile is Compile for limits written in code; it panics on an error.
func (l Limit) MustCompile() *Meter {
	m, err := l.Compile()
	if err != nil {
		panic(err)
	}
	return m
}

// fingerprint names the state of a limit within its subject: kind, ordinal, and window or period and zone, in
// 56 bits. It leaves out count, burst and queue, so that changing them keeps what clients have consumed.
//
//	kind(4) ordinal(5) 00 window(45)
//	kind(4) ordinal(5) 1  period(3) zone(43)
//	kind(4) ordinal(5) 01 window, or period(3) and zone(42), XOR scope(45)
//
// A limit with a scope never has the fingerprint of one without, and limits of one scope differ wherever they
// would without it.
func (l Limit) fingerprint(k Kind, window int64) uint64 {
	v := uint64(window)
	if k == KindCalendar {
		h := fnv.New64a()
		h.Write([]byte(zone(l.Location).String()))
		v = 1<<46 | uint64(l.Period)<<43 | h.Sum64()>>21
	}
	if l.Scope != 0 {
		if k == KindCalendar {
			v = v & (1<<46 - 1) >> 1
		}
		v = 1<<scopeBits | (v^l.Scope)&(1<<scopeBits-1)
	}
	return uint64(k)<<kindShift | uint64(l.Ordinal)<<ordinalShift | v
}

// Positions of the parts of a fingerprint.
const (
	kindShift    = 52
	ordinalShift = 47
	scopeBits    = 45
)

func zone(loc *time.Location) *time.Location {
	if loc == nil {
		return time.UTC
	}
	return loc
}

// Limit returns the limit that was compiled.
func (m *Meter) Limit() Limit { return m.limit }

// Algorithm returns the limit's algorithm.
func (m *Meter) Algorithm() Algorithm { return m.limit.Algorithm }

// PerWindow returns the limit's count.
func (m *Meter) PerWindow() int64 { return m.limit.Count }

// IsOver reports whether a state, brought up to now, exceeds the limit of a meter that counts all requests.
// The request that exceeded it is denied, and so is any after it.
func (m *Meter) IsOver(s State) bool { return m.CountAll && s.Used > m.limit.Count }

// IsFirm reports whether a denial by this meter holds until its retry-after.
func (m *Meter) IsFirm() bool { return m.Kind != KindLeases && !m.CountDenied }

func (m *Meter) String() string { return m.limit.String() }

// Weigh brings a fixed-size state up to now and reports whether the cost passes. repaired means that a wrong
// clock had written the state and it was re-dated. The store keeps that even if the request is denied:
// otherwise a state from the future would block until that future comes.
func (m *Meter) Weigh(s State, now Instant, cost int64, maxDelay time.Duration) (_ State, passes, repaired bool) {
	never := !m.CanEver(cost)
	if never {
		cost = 0 // its product with the window might overflow
	}
	switch m.Kind {
	case KindWindow, KindCalendar:
		s, repaired = m.advanceWindow(s, now)
		passes = s.Used+cost <= m.Count
	case KindCounter:
		s, repaired = m.advanceCounter(s, now)
		passes = m.counterPasses(s, now, cost)
	case KindBucket:
		s, repaired = m.advanceBucket(s, now)
		passes = s.Used+cost*m.Ticks <= m.Full
	case KindLeaky:
		s, repaired = m.advanceBucket(s, now)
		passes = s.Used+cost*m.Ticks <= m.Full && (cost == 0 || m.leakyDelay(s.At, s.Used, now) <= maxDelay)
	case KindInterval:
		s, repaired = m.advanceInterval(s, now)
		passes = s.Used+cost <= m.Capacity
	}
	return s, passes && !never, repaired
}

// TakeFixed decides a single charge on a fixed-size state: it does what Weigh, Charge or ChargeDenied, and Clear do one
// after the other. write means that the store must keep the state.
func (m *Meter) TakeFixed(s State, now Instant, cost int64, maxDelay time.Duration) (_ State, r FixedResult, write, repaired bool) {
	if s.At <= now && cost <= m.Capacity && !m.CountDenied { // the most common cases, in one go
		switch m.Kind {
		case KindBucket:
			used := m.missingAt(s, now)
			if after := used + cost*m.Ticks; after <= m.Full {
				return State{At: now, Used: after}, FixedResult{Now: now, Clear: m.bucketClear(now, after), Passes: true}, cost != 0, false
			}
			return State{At: now, Used: used}, FixedResult{Now: now, Clear: m.bucketClear(now, used)}, false, false
		case KindWindow:
			start := m.byWindow.multiple(now)
			if s.At < start {
				s = State{At: start}
			}
			r.Now, r.Clear = now, start+Instant(m.Window)
			if r.Passes = s.Used+cost <= m.Count; r.Passes {
				s.Used += cost
			}
			if s.Used <= 0 {
				r.Clear = now
			}
			return s, r, r.Passes && cost != 0, false
		}
	}
	s, r.Passes, repaired = m.Weigh(s, now, cost, maxDelay)
	switch {
	case cost == 0 || !m.CanEver(cost):
	case r.Passes:
		s, write = m.Charge(s, cost), true
	case m.CountDenied:
		s, write = m.ChargeDenied(s, cost), true
	default:
		write = repaired
	}
	r.Now, r.Clear = now, m.Clear(s, now)
	return s, r, write, repaired
}

// CanEver reports whether the cost could ever pass. A cost that cannot is denied with retry-after Never and
// changes nothing.
func (m *Meter) CanEver(cost int64) bool { return cost <= m.Capacity || m.Kind == KindLeases }

// Charge adds the cost to a state that Weigh brought up to date.
func (m *Meter) Charge(s State, cost int64) State {
	switch m.Kind {
	case KindBucket, KindLeaky:
		s.Used += cost * m.Ticks
	default:
		s.Used += cost
	}
	return s
}

// ChargeDenied records a denied request under count_denied, up to one above the limit.
func (m *Meter) ChargeDenied(s State, cost int64) State {
	s.Used = max(s.Used, min(s.Used+cost, m.Count+1))
	return s
}

// Amount returns how much a charge that passes takes from a state that Weigh brought up to date.
func (m *Meter) Amount(s State, now Instant, c Charge) int64 {
	if !c.Overdraw {
		return c.Cost
	}
	return m.within(m.used(s, now), c.Cost)
}

// within caps a cost that must be recorded at what the overdraft has room for.
func (m *Meter) within(used, cost int64) int64 { return min(cost, m.Capacity+m.Overdraft-used) }

// used returns how much of the capacity a state holds.
func (m *Meter) used(s State, now Instant) int64 {
	switch m.Kind {
	case KindCounter:
		return m.counterUsed(s, now)
	case KindBucket, KindLeaky:
		return m.byTicks.ceil(s.Used)
	}
	return s.Used
}

// A Result is the result of one charge, for [Meter.Report].
type Result struct {
	State    State // after the request
	Cost     int64
	Passes   bool // the charge by itself passes
	Taken    bool // it was charged
	MaxDelay time.Duration
}

// Report converts a result into the numbers that the client gets.
func (m *Meter) Report(now Instant, r Result) (d Decision) {
	m.ReportTo(&d, now, &r)
	return d
}

// Peek converts a state into the numbers that a client gets for a request without a cost.
func (m *Meter) Peek(s State, now Instant) Decision {
	return m.Report(now, Result{State: s, Passes: true})
}

// ReportTo is Report in place.
func (m *Meter) ReportTo(d *Decision, now Instant, r *Result) {
	m.report(d, now, r, m.used(r.State, now), m.Clear(r.State, now))
}

// Clear returns when the subject is as if it had never been seen, which is now if nothing is used.
func (m *Meter) Clear(s State, now Instant) Instant {
	if s.Used <= 0 && (m.Kind != KindCounter || s.Previous*m.counterLeft(s, now) <= 0) {
		return now
	}
	switch m.Kind {
	case KindWindow, KindCalendar:
		return m.windowEnd(max(now, s.At))
	case KindCounter:
		return m.counterClear(s)
	case KindBucket, KindLeaky:
		return m.bucketClear(s.At, s.Used)
	case KindInterval:
		return s.At + Instant(m.byCount.ceil(s.Used)*m.Window)
	case KindLog:
		return s.At + Instant(m.Window)
	}
	return s.At
}

// A FixedResult is the result of a charge of a fixed-size kind that was taken if it passed. It is separate from the
// state so that a function returns both in registers.
type FixedResult struct {
	Now    Instant
	Clear  Instant // see [Meter.Clear]
	Passes bool
}

// ReportFixed is ReportTo for a FixedResult and the state after the request.
func (m *Meter) ReportFixed(d *Decision, s State, r FixedResult, cost int64, maxDelay time.Duration) {
	if m.Kind == KindBucket && r.Passes && !m.CountAll { // the most common case, without a Result in memory
		used := m.byTicks.ceil(s.Used)
		d.Allowed, d.Limit, d.Used, d.Remaining = true, m.Capacity, used, max(0, m.Capacity-used)
		d.RetryAfter, d.ResetAfter, d.Delay = 0, r.Clear.Sub(r.Now), 0
		d.Receipt.Fingerprint, d.Receipt.Cost, d.Receipt.At = 0, 0, 0
		if cost > 0 {
			d.Receipt.Fingerprint, d.Receipt.Cost, d.Receipt.At = m.Fingerprint, cost, max(r.Now, s.At)
		}
		return
	}
	m.report(d, r.Now, &Result{State: s, Cost: cost, Passes: r.Passes, Taken: r.Passes, MaxDelay: maxDelay}, m.used(s, r.Now), r.Clear)
}

// report fills in a decision. Every decision goes through it, so it sets the fields one by one: a literal would be
// copied.
func (m *Meter) report(d *Decision, now Instant, r *Result, used int64, clear Instant) {
	capacity, passes := m.Capacity, r.Passes
	if m.CountAll {
		capacity, passes = m.limit.Count, passes && !m.IsOver(r.State)
	}
	d.Allowed, d.Limit, d.Used, d.Remaining = passes, capacity, used, max(0, capacity-used)
	d.RetryAfter, d.ResetAfter, d.Delay = 0, 0, 0
	d.Receipt.Fingerprint, d.Receipt.Cost, d.Receipt.At = 0, 0, 0
	if used > 0 {
		d.ResetAfter = clear.Sub(now)
	}
	if !passes {
		d.RetryAfter = m.retryAfter(r.State, now, r.Cost, r.MaxDelay)
	}
	if !r.Taken {
		return
	}
	if m.Kind == KindLeaky {
		d.Delay = m.leakyDelay(r.State.At, r.State.Used-r.Cost*m.Ticks, now)
	}
	if r.Cost > 0 {
		d.Receipt.Fingerprint, d.Receipt.Cost, d.Receipt.At = m.Fingerprint, r.Cost, max(now, r.State.At)
		if m.Kind == KindLeases {
			d.Receipt.Cost, d.Receipt.At = 1, now
		}
	}
}

// retryAfter returns how long a denied cost has to wait.
func (m *Meter) retryAfter(s State, now Instant, cost int64, maxDelay time.Duration) time.Duration {
	if !m.CanEver(cost) || m.CountAll && cost > m.limit.Count {
		return Never
	}
	var free Instant
	switch m.Kind {
	case KindWindow, KindCalendar:
		free = m.windowEnd(max(now, s.At))
	case KindCounter:
		free = m.counterFree(s, now, cost)
	case KindBucket:
		free = m.bucketAt(s.At, m.byCount.ceil(s.Used+cost*m.Ticks-m.Full))
	case KindLeaky:
		free = m.leakyFree(s, now, cost, maxDelay)
	case KindInterval:
		free = s.At + Instant(m.byCount.ceil(s.Used+cost-m.Capacity)*m.Window)
	case KindLog:
		free = s.FreeAt + Instant(m.Window)
	case KindLeases:
		free = s.FreeAt
	}
	return free.Sub(now)
}

// lifeUnit is the granularity of a life code: 2^14 µs, about 16 ms.
const lifeUnit = 14

// LifeCode packs a duration in µs into a byte, rounded up by about an eighth at most. Stores keep it next to
// a state to know when they may forget it, regardless of the meter that wrote it.
func LifeCode(µs int64) uint8 {
	units := (max(µs, 0) + 1<<lifeUnit - 1) >> lifeUnit
	if units < 8 {
		return uint8(units)
	}
	exp := bits.Len64(uint64(units)) - 4 // units is 8..15 × 2^exp
	mantissa := (units + 1<<exp - 1) >> exp
	if mantissa == 16 {
		mantissa, exp = 8, exp+1
	}
	return uint8((exp+1)<<3 | int(mantissa-8))
}

// CodeLife returns the longest duration in µs that the code may represent.
func CodeLife(code uint8) int64 {
	if code < 8 {
		return int64(code) << lifeUnit
	}
	return int64(8+code&7) << (code>>3 - 1 + lifeUnit)
}

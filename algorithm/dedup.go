package algorithm

import (
	"errors"
	"fmt"
	"time"
)

// DedupTerms say when a rule treats a request as a duplicate of one that it has allowed, as an operator
// writes them. [DedupTerms.Compile] checks them and compiles them into a [Dedup].
type DedupTerms struct {
	TTL        time.Duration // from the first request; a duplicate does not extend it
	MaxReplays int64         // of one ID; the next request counts as new

	// Budget is what the duplicates of a subject may cost, all its IDs together, so that a client that invents IDs
	// gets at most this much more than the limit next to Budget. Duplicates are counted by that limit's algorithm
	// over its window or period, in its scope, so the sum of both holds wherever the limit does: for a sliding log,
	// in any trailing window. For a leaky bucket, the budget is a token bucket. For a concurrency limit, which counts
	// nothing over time, it is a fixed window of its Window.
	Budget int64
	Beside Limit

	// Burst is how much of the budget can be used at once, if not 0. The budget is then a token bucket, which
	// refills by Budget in the window of the limit beside it: it holds for a limit of a long window and for one
	// of a short window.
	Burst int64
}

// Bounds of dedup terms.
const (
	MaxDedupTTL = 24 * time.Hour
	MaxReplays  = 255
)

// A Dedup recognises duplicates. It is immutable.
type Dedup struct {
	terms DedupTerms

	TTL        int64 // µs
	MaxReplays int64
	Budget     *Meter // the meter that duplicates are charged to
}

// Compile checks the terms and reports all errors at once.
func (d DedupTerms) Compile() (*Dedup, error) {
	var problems []error
	if d.TTL < MinWindow || d.TTL > MaxDedupTTL || d.TTL%time.Microsecond != 0 {
		problems = append(problems, fieldError("ttl", d.TTL, "must be from %v to %v in whole microseconds", MinWindow, MaxDedupTTL))
	}
	if d.MaxReplays < 1 || d.MaxReplays > MaxReplays {
		problems = append(problems, &FieldError{"max_replays", d.MaxReplays, fmt.Sprintf("must be from 1 to %d", MaxReplays)})
	}
	budget, err := d.budget().Compile()
	if err != nil {
		problems = append(problems, fmt.Errorf("replay_budget: %w", err))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w dedup: %w", ErrInvalid, errors.Join(problems...))
	}
	budget.Fingerprint = budgetFingerprint(budget)
	return &Dedup{terms: d, TTL: d.TTL.Microseconds(), MaxReplays: d.MaxReplays, Budget: budget}, nil
}

// budget returns the limit on duplicates.
func (d DedupTerms) budget() Limit {
	l := Limit{Algorithm: d.Beside.Algorithm, Count: d.Budget, Window: d.Beside.Window, Period: d.Beside.Period, Location: d.Beside.Location, Refill: d.Beside.Refill, Scope: d.Beside.Scope}
	if l.Algorithm == LeakyBucket {
		l.Algorithm = TokenBucket
	}
	if d.Burst != 0 {
		return l.asBucket(d.Burst)
	}
	if l.Algorithm == Concurrency || l.Algorithm == TokenBucket && l.Count == 0 { // a bucket holds at least one
		l.Algorithm, l.Refill = FixedWindow, Continuous
	}
	return l
}

// asBucket returns a token bucket that refills no faster than the limit. Its burst is smaller if it would not be exact
// otherwise.
func (l Limit) asBucket(burst int64) Limit {
	window := l.Window
	if l.Period != NoPeriod {
		window = min(longest(l.Period), MaxWindow)
	}
	b := Limit{Algorithm: TokenBucket, Count: l.Count, Window: window, Scope: l.Scope}
	unit := b.unit()
	b.Window = (window + unit - 1).Truncate(unit)
	b.Burst = min(burst, (maxProduct-1)/int64(b.Window/unit))
	return b
}

// budgetFingerprint names a state that never collides with one of the rule's limits. A budget has no ordinal:
// the kind takes its place, except for windows, which used to be the only kind and keep their names.
func budgetFingerprint(m *Meter) uint64 {
	f := m.Fingerprint&(1<<kindShift-1) | uint64(kindBudget)<<kindShift
	if m.Kind != KindWindow && m.Kind != KindCalendar {
		f |= uint64(m.Kind) << ordinalShift
	}
	return f
}

// Terms returns the terms that were compiled.
func (d *Dedup) Terms() DedupTerms { return d.terms }

// A Record is what is remembered of an allowed request, under its subject and ID.
type Record struct {
	First   Instant // when it was allowed
	Replays int64   // so far
	Departs Instant // when a leaky bucket let it start; 0 if there is no leaky bucket
	Nonce   uint64  // under which what it took can be given back; 0 if it cannot
}

// Recalls reports whether a request with this record is a duplicate, provided that the budget allows it.
func (d *Dedup) Recalls(r Record, now Instant) bool {
	_, wrong := ahead(r.First, now, d.TTL)
	return r.First != 0 && !wrong && now < r.First+Instant(d.TTL) && r.Replays < d.MaxReplays
}

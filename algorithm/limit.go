package algorithm

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/enum"
	"github.com/penstock-io/penstock/internal/spelling"
)

// Algorithm names how a limit counts.
type Algorithm uint8

const (
	FixedWindow          Algorithm = iota + 1 // L per window or calendar period
	SlidingWindowLog                          // exact: L in any trailing window
	SlidingWindowCounter                      // approximate: two counters instead of a log
	TokenBucket                               // L per window on average, bursts up to Burst
	LeakyBucket                               // L per window, evenly spaced, up to Queue waiting
	Concurrency                               // L at the same time
)

// Refill says how a token bucket gets its tokens back.
type Refill uint8

const (
	Continuous Refill = iota // tokens arrive continuously
	Interval                 // L at once at every multiple of the window since the epoch
)

// Period is a calendar period of a fixed window, by the calendar of the limit's time zone.
type Period uint8

const (
	NoPeriod Period = iota
	Hour
	Day
	Week // starts on Monday
	Month
	Year
)

var (
	algorithmNames = [...]string{"", "fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket", "concurrency"}
	refillNames    = [...]string{"continuous", "interval"}
	periodNames    = [...]string{"", "hour", "day", "week", "month", "year"}
)

func (a Algorithm) String() string { return enum.Name(algorithmNames[:], a, "Algorithm") }
func (r Refill) String() string    { return enum.Name(refillNames[:], r, "Refill") }
func (p Period) String() string    { return enum.Name(periodNames[:], p, "Period") }

// UnmarshalText reads the name an operator writes, e.g. "token_bucket".
func (a *Algorithm) UnmarshalText(text []byte) error {
	return enum.Parse(a, algorithmNames[:], text, "algorithm")
}

// UnmarshalText reads "continuous" or "interval".
func (r *Refill) UnmarshalText(text []byte) error {
	return enum.Parse(r, refillNames[:], text, "refill")
}

// UnmarshalText reads "hour", "day", "week", "month" or "year".
func (p *Period) UnmarshalText(text []byte) error {
	return enum.Parse(p, periodNames[:], text, "period")
}

func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
func (r Refill) MarshalText() ([]byte, error)    { return []byte(r.String()), nil }
func (p Period) MarshalText() ([]byte, error)    { return []byte(p.String()), nil }

// A Limit is an algorithm with its numbers, as an operator writes it. [Limit.Compile] checks it and compiles
// it into a [Meter].
type Limit struct {
	Algorithm Algorithm
	Count     int64         // L: how much passes per Window or Period, or how many at the same time
	Window    time.Duration // W; for Concurrency, the time to live of a permit

	Period   Period         // FixedWindow: a calendar period instead of Window
	Location *time.Location // the Period's time zone; nil is UTC

	Burst  int64  // TokenBucket: capacity; 0 means Count
	Refill Refill // TokenBucket
	Queue  int64  // LeakyBucket: how many may wait besides the one that starts at once

	// CountDenied also records denied requests (window algorithms), up to one above the limit, so that a
	// client that keeps sending requests stays denied.
	CountDenied bool

	// CountAll counts every request in full, denied ones too (fixed windows, in groups that are alone): a
	// request that brings the count above the limit is denied and counted. So a cost that is known too late
	// to be denied is still counted in full.
	CountAll bool

	// Overdraft is how far below zero a charge that must be recorded may drive the balance.
	Overdraft int64

	// Ordinal distinguishes limits of one rule that have the same kind and window.
	Ordinal uint8

	// Scope separates the counters of limits that one subject has side by side, such as those of a rule
	// (scope 0) and of an override with counters of its own. Limits of different scopes share a counter only
	// with probability 2^-45.
	Scope uint64
}

// Bounds of a Limit's numbers. They keep every intermediate result exact in a double.
const (
	MaxCount   = 1_000_000_000_000 // of Count, Burst, Queue, each with the Overdraft, and of a charge's cost
	MaxLog     = 100_000           // entries of a sliding log, and permits of a concurrency limit
	MaxOrdinal = 31
	MinWindow  = time.Millisecond
	MaxWindow  = 366 * 24 * time.Hour

	maxProduct = 1 << 52 // of capacity and window in ticks
)

// IsLimiterOption makes a Limit an option of penstock.New.
func (Limit) IsLimiterOption() {}

// String formats the limit for people: "token_bucket 10/1s burst 20".
func (l Limit) String() string {
	s := fmt.Sprintf("%v %d/%s", l.Algorithm, l.Count, spelling.Duration(l.Window))
	if l.Period != NoPeriod {
		s = fmt.Sprintf("%v %d/%v", l.Algorithm, l.Count, l.Period)
		if l.Location != nil {
			s += " " + l.Location.String()
		}
	}
	if l.Refill != Continuous {
		s += " refill " + l.Refill.String()
	}
	if l.Burst != 0 {
		s += fmt.Sprintf(" burst %d", l.Burst)
	}
	if l.Algorithm == LeakyBucket {
		s += fmt.Sprintf(" queue %d", l.Queue)
	}
	if l.CountDenied {
		s += " count_denied"
	}
	if l.CountAll {
		s += " count_all"
	}
	if l.Overdraft != 0 {
		s += fmt.Sprintf(" overdraft %d", l.Overdraft)
	}
	if l.Ordinal != 0 {
		s += fmt.Sprintf(" #%d", l.Ordinal)
	}
	return s
}

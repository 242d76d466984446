package penstock

import (
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The names below are declared in packages algorithm and storage, and repeated here for convenience.

// A Store keeps counters and decides tickets atomically: a memstore, a redisstore, or any other store that
// passes the test suite in package storetest. Package storage documents the contract for authors of stores.
type Store = storage.Store

// A Limit is an algorithm with its numbers, for example
//
//	penstock.Limit{Algorithm: penstock.FixedWindow, Count: 10_000, Period: penstock.Month}
//
// Most limits are made from a [Rate] or by [Concurrent]. A Limit is an [Option] of [New].
type Limit = algorithm.Limit

// A FieldError says what is wrong with one field of a limit and what is allowed.
type FieldError = algorithm.FieldError

// A Decision is the result for one limit: whether it allows the request, how much is used and left, when to
// retry, and how long to hold the request.
type Decision = algorithm.Decision

// An Instant is a point in time in whole microseconds since the Unix epoch.
type Instant = algorithm.Instant

// InstantOf returns t as an Instant, rounded down to the microsecond.
func InstantOf(t time.Time) Instant { return algorithm.InstantOf(t) }

const (
	// Never is the RetryAfter of a request that can never pass, however long the client waits.
	Never = algorithm.Never

	// AnyDelay as a MaxDelay accepts whatever delay a leaky bucket imposes.
	AnyDelay = algorithm.AnyDelay
)

// Algorithm names how a limit counts.
type Algorithm = algorithm.Algorithm

const (
	FixedWindow          = algorithm.FixedWindow          // Count per window or calendar period
	SlidingWindowLog     = algorithm.SlidingWindowLog     // exact: Count in any trailing window
	SlidingWindowCounter = algorithm.SlidingWindowCounter // approximate: two counters instead of a log
	TokenBucket          = algorithm.TokenBucket          // Count per window on average, bursts up to Burst
	LeakyBucket          = algorithm.LeakyBucket          // Count per window, evenly spaced, up to Queue waiting
	Concurrency          = algorithm.Concurrency          // Count at the same time
)

// Refill says how a token bucket gets its tokens back.
type Refill = algorithm.Refill

const (
	Continuous = algorithm.Continuous // tokens arrive continuously
	Interval   = algorithm.Interval   // Count at once at every multiple of the window since the epoch
)

// Period is a calendar period of a fixed window, in the limit's time zone.
type Period = algorithm.Period

const (
	NoPeriod = algorithm.NoPeriod
	Hour     = algorithm.Hour
	Day      = algorithm.Day
	Week     = algorithm.Week // starts on Monday
	Month    = algorithm.Month
	Year     = algorithm.Year
)

// An Attribute is a named property of a request.
type Attribute = storage.Attribute

// A Verb is what a [Conclusion] does with a reservation.
type Verb = storage.Verb

const (
	Settle  = storage.Settle  // charge the true cost instead of the estimate, release permits
	Release = storage.Release // give everything back
	Renew   = storage.Renew   // keep the reservation and its permits open for longer
)

var (
	// ErrInvalid is wrapped by every error caused by invalid input. Retrying does not help.
	ErrInvalid = algorithm.ErrInvalid

	// ErrUnavailable is wrapped by every error of a store that could not answer. It is then unknown whether
	// the request was charged.
	ErrUnavailable = storage.ErrUnavailable

	// ErrNoReservation is returned for a conclusion without a reservation: it was never made, has expired, or
	// belongs to another key. It wraps ErrInvalid.
	ErrNoReservation = storage.ErrNoReservation

	// ErrClosed is returned for a conclusion whose reservation was already closed in another way. It wraps
	// ErrInvalid.
	ErrClosed = storage.ErrClosed
)

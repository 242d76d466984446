package algorithm

import (
	"math"
	"time"
)

// An Instant is a point in time in whole microseconds since the Unix epoch. In a storage.Ticket, zero means
// "the store's clock".
type Instant int64

const (
	// MaxInstant is the last instant a store can represent (in the year 2112).
	MaxInstant Instant = 1<<52 - 1

	// Never is the retry-after of a request that can never pass, however long the client waits.
	Never time.Duration = -1

	// AnyDelay as a ticket's MaxDelay accepts whatever delay a leaky bucket imposes.
	AnyDelay time.Duration = math.MaxInt64
)

// InstantOf returns t as an Instant, rounded down to the microsecond.
func InstantOf(t time.Time) Instant { return Instant(t.UnixMicro()) }

// Time returns i as a time.Time in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Add returns i moved by d, rounded down to the microsecond.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Microseconds()) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i-j) * time.Microsecond }

// ahead reports how to read a stored instant that lies after now. Within reach, the clock has stepped back a
// little, and time is frozen until the clock has caught up. Beyond reach, a wrong clock wrote the instant,
// and the state is re-dated to now: otherwise it would block for as long as that clock was wrong.
func ahead(at, now Instant, reach int64) (frozen, wrong bool) {
	if at <= now {
		return false, false
	}
	wrong = int64(at-now) > reach
	return !wrong, wrong
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

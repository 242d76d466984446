package algorithm

import "time"

// A Decision is the result for one charge. With a limit of 100 a minute of which 37 are used, a request that
// costs 1 and passes gets Limit 100, Used 38, Remaining 62.
type Decision struct {
	Allowed   bool  // this limit by itself allows the charge; another may still deny the request
	Limit     int64 // L, B, Q+1 or N
	Used      int64 // may exceed Limit under count_denied, or after the limit was lowered
	Remaining int64 // what would still pass now; never negative

	// RetryAfter is a promise: a single retry then passes, and one tick earlier it does not. It is 0 if
	// Allowed, and Never for a cost that can never pass. For concurrency it is the time until a permit
	// expires; a release may come sooner.
	RetryAfter time.Duration

	ResetAfter time.Duration // when the subject is as if it had never been seen
	Delay      time.Duration // how long to hold a request of a leaky bucket before it starts

	Receipt Receipt // what was charged, to give it back; zero if nothing was
}

// IsStricter reports whether d rather than other is what the client of a request is told: of the limits that deny, the
// one with the longest wait; of an allowed request, the one with the least left.
func (d *Decision) IsStricter(other *Decision, allowed bool) bool {
	switch {
	case allowed:
		return d.Remaining < other.Remaining
	case d.Allowed || other.Allowed:
		return !d.Allowed && other.Allowed
	case d.RetryAfter == Never || other.RetryAfter == Never:
		return other.RetryAfter != Never
	}
	return d.RetryAfter > other.RetryAfter
}

// A Receipt says what a charge took.
type Receipt struct {
	Fingerprint uint64 // of the meter that was charged
	Cost        int64
	At          Instant
}

package algorithm

import "time"

// A Decision is the answer for one charge. With a limit of 100 a minute of which 37 are used, a
// call that costs 1 and passes is told Limit 100, Used 38, Remaining 62.
type Decision struct {
	Allowed   bool  // this limit by itself lets the charge pass; the call may still be denied by another
	Limit     int64 // L, B, Q+1 or N
	Used      int64 // may exceed Limit under count_denied, or after the limit was lowered
	Remaining int64 // what would still pass now, never negative

	// RetryAfter is a promise: a lone retry then passes, and one tick earlier it does not. It is
	// 0 where Allowed, and Never for a cost above what could ever pass. For concurrency it
	// is the expiry that would free a place; a release may come sooner.
	RetryAfter time.Duration

	ResetAfter time.Duration // when the subject is as if never seen
	Delay      time.Duration // a leaky bucket's call is to start after this

	Receipt Receipt // what was charged, for giving it back; zero if nothing was
}

// A Receipt says what a charge took.
type Receipt struct {
	Fingerprint uint64 // of the meter that was charged
	Cost        int64
	At          Instant
}

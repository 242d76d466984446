package penstock

import "time"

// A Rate is an amount per window, such as PerMinute(100). It is an [Option] of [New]: by itself it is a
// sliding window counter, like a rate in a rules document. Its methods choose another algorithm:
//
//	penstock.PerMinute(100)                 // at most 100 in any minute, within a small error
//	penstock.PerMinute(100).SlidingLog()    // at most 100 in any minute, exactly
//	penstock.PerSecond(10).TokenBucket(50)  // 10 a second on average, bursts of up to 50
type Rate struct {
	Count  int64
	Window time.Duration
}

// PerSecond returns the rate of n a second.
func PerSecond(n int64) Rate { return Rate{n, time.Second} }

// PerMinute returns the rate of n a minute.
func PerMinute(n int64) Rate { return Rate{n, time.Minute} }

// PerHour returns the rate of n an hour.
func PerHour(n int64) Rate { return Rate{n, time.Hour} }

// PerDay returns the rate of n in 24 hours. For calendar days, weeks or months, use a [Limit] with a
// Period.
func PerDay(n int64) Rate { return Rate{n, 24 * time.Hour} }

// SlidingCounter allows Count in any window. It estimates from two counters, so it takes little memory
// regardless of the count.
func (r Rate) SlidingCounter() Limit { return r.limit(SlidingWindowCounter) }

// SlidingLog allows exactly Count in any window. It remembers each request, so Count is at most
// [algorithm.MaxLog].
func (r Rate) SlidingLog() Limit { return r.limit(SlidingWindowLog) }

// FixedWindow allows Count in each window, and up to twice that around a window boundary.
func (r Rate) FixedWindow() Limit { return r.limit(FixedWindow) }

// TokenBucket allows Count per window on average, and up to burst at once. A burst of 0 means Count:
// PerMinute(100).TokenBucket(0) allows 100 at once.
func (r Rate) TokenBucket(burst int64) Limit {
	l := r.limit(TokenBucket)
	l.Burst = burst
	return l
}

// LeakyBucket spaces requests evenly, Count per window, with up to queue of them waiting. Middleware holds a
// waiting request; [Limiter.Allow] and [Limiter.Take] deny it, as they do not wait.
func (r Rate) LeakyBucket(queue int64) Limit {
	l := r.limit(LeakyBucket)
	l.Queue = queue
	return l
}

func (r Rate) limit(a Algorithm) Limit { return Limit{Algorithm: a, Count: r.Count, Window: r.Window} }

// permitTTL is how long a permit of Concurrent lasts unless it is renewed. Middleware renews permits while
// their requests run.
const permitTTL = time.Minute

// Concurrent allows n requests at the same time. Each holds a permit until it is released; the permit of a
// process that died expires after a minute. To change that time, set the limit's Window.
func Concurrent(n int64) Limit {
	return Limit{Algorithm: Concurrency, Count: n, Window: permitTTL}
}

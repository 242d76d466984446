package penstock

import "time"

// A leaky bucket is a continuous bucket of capacity Queue+1 whose level is read as a queue: what
// is in the bucket when a call arrives leaves before it. An idle bucket starts its first call at
// once, so a burst admits 1 + Queue. Departures are W/L apart, in order of arrival.

// leakyDelay returns how long a call waits that finds the given level at the instant at.
func (m *Meter) leakyDelay(at Instant, level int64, now Instant) time.Duration {
	return m.bucketAt(at, ceilDiv(level, m.Count)).Sub(now)
}

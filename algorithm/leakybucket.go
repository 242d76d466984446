package algorithm

import "time"

// A leaky bucket is a continuous bucket of capacity Queue+1 whose level is read as a queue: what is in the
// bucket when a request arrives leaves before it. An idle bucket starts its first request at once, so a burst
// admits 1 + Queue. Departures are W/L apart, in order of arrival.

// leakyDelay returns how long a request waits that finds the given level at the instant at.
func (m *Meter) leakyDelay(at Instant, level int64, now Instant) time.Duration {
	return m.bucketAt(at, m.byCount.ceil(level)).Sub(now)
}

// leakyFree returns when a denied cost finds room with a wait that its client accepts.
func (m *Meter) leakyFree(s State, now Instant, cost int64, maxDelay time.Duration) Instant {
	room := m.bucketAt(s.At, m.byCount.ceil(s.Used+cost*m.Ticks-m.Full))
	if maxDelay == AnyDelay {
		return room
	}
	patient := now.Add(m.leakyDelay(s.At, s.Used, now) - maxDelay.Truncate(time.Microsecond))
	if s.Used+cost*m.Ticks <= m.Full {
		return patient // there is room already, even while time is frozen
	}
	return max(room, patient)
}

package memstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A clock derives the wall-clock time from a stopwatch, which is cheaper to read. It is exact to its resolution of
// a microsecond: the instant it returns lies between the call and the return. It checks its offset from the
// stopwatch every anchorFor, so it notices a step of the wall clock within that time.
type clock struct {
	watch     stopwatch
	anchored  atomic.Int64 // when the offset was last checked, by the stopwatch
	offset    atomic.Int64 // ns to add to the stopwatch to get the wall clock
	anchoring sync.Mutex

	followed followedClock // the clock of the store that this one replaces as a fallback
}

// anchorFor bounds what a drifting stopwatch adds: 1 part in maxDrift of it is a microsecond.
const anchorFor = time.Millisecond

func (c *clock) init() {
	c.watch.init()
	c.followed.began = c.watch.start
	for range 3 {
		c.anchor(0)
	}
}

func (c *clock) now() algorithm.Instant {
	if s := c.watch.scale.Load(); s != nil && c.followed.ahead.Load() == 0 { // the most common case
		since := s.at(readTicks())
		if uint64(since-c.anchored.Load()) < uint64(anchorFor) {
			return algorithm.Instant((since + c.offset.Load()) / 1000)
		}
	}
	return c.slowNow()
}

// slowNow is now if the clock must be anchored, or does not count ticks.
func (c *clock) slowNow() algorithm.Instant {
	if now, ok := c.followed.now(); ok {
		return now
	}
	since := c.watch.since()
	if passed := since - c.anchored.Load(); uint64(passed) >= uint64(anchorFor) { // or negative
		since = c.anchor(since)
	}
	return algorithm.Instant((since + c.offset.Load()) / 1000)
}

// anchor checks the offset and the stopwatch, and returns what the stopwatch shows. The two clocks cannot be read
// at the same moment, and the goroutine may be descheduled between the readings. So anchor reads the wall clock
// between two readings of the stopwatch. It moves the offset only if it lies outside the range these allow, and
// only to the edge of that range. While another goroutine does so, it returns the given reading if that is recent. If
// not, the machine may have been suspended and the counter may be wrong: then it waits for its turn.
func (c *clock) anchor(since int64) int64 {
	if !c.anchoring.TryLock() {
		if passed := since - c.anchored.Load(); uint64(passed) < uint64(100*anchorFor) {
			return since
		}
		c.anchoring.Lock()
	}
	defer c.anchoring.Unlock()
	for {
		before := c.watch.since()
		wall := time.Now()
		since = c.watch.since()
		if c.watch.check(before, wall, since, since-c.anchored.Load()) {
			c.offset.Store(min(max(c.offset.Load(), wall.UnixNano()-since), wall.UnixNano()-before))
			c.anchored.Store(since)
			return since
		}
	}
}

package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A clock derives the wall-clock time from the monotonic clock, which is cheaper to read. It is exact: the
// instant it returns lies between the call and the return. It checks its offset from the monotonic clock
// every anchorFor, so it notices a step of the wall clock within that time.
type clock struct {
	start    time.Time    // origin of the monotonic readings
	anchored atomic.Int64 // ns since start of the last offset check
	offset   atomic.Int64 // ns to add to the time since start to get the wall clock

	followed followedClock // the clock of the store that this one replaces as a fallback
}

const anchorFor = 10 * time.Millisecond

func (c *clock) init() {
	c.start = time.Now()
	c.followed.began = c.start
	for range 3 {
		c.anchor()
	}
}

func (c *clock) now() algorithm.Instant {
	if now, ok := c.followed.now(); ok {
		return now
	}
	since := int64(time.Since(c.start))
	if since-c.anchored.Load() >= int64(anchorFor) {
		since = c.anchor()
	}
	return algorithm.Instant((since + c.offset.Load()) / 1000)
}

// anchor checks the offset and returns the time since start. The two clocks cannot be read at the same
// moment, and the goroutine may be descheduled between the readings. So anchor reads the wall clock between
// two readings of the monotonic clock. It moves the offset only if it lies outside the range these allow,
// and only to the edge of that range.
func (c *clock) anchor() (since int64) {
	before := int64(time.Since(c.start))
	wall := time.Now().UnixNano()
	since = int64(time.Since(c.start))
	c.offset.Store(min(max(c.offset.Load(), wall-since), wall-before))
	c.anchored.Store(since)
	return since
}

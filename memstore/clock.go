package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A clock tells the wall-clock time by the monotonic clock, which is cheaper to read. It is exact: the
// instant it returns lies between the call and the return. What it adds to the monotonic clock is
// checked every anchorFor, so a step of the wall clock is noticed within that time.
type clock struct {
	start    time.Time    // the monotonic clock is read as the time since
	anchored atomic.Int64 // ns since start when the offset was checked
	offset   atomic.Int64 // ns from the time since start to the wall clock

	followed followed // the clock of the store that this one stands in for
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

// anchor checks the offset and returns the time since start. The two clocks cannot be read at once, and
// the goroutine may lose its processor in between. So the wall clock is read between two readings of
// the monotonic one: the offset moves only if it lies outside of what these allow, and no further
// than they prove.
func (c *clock) anchor() (since int64) {
	before := int64(time.Since(c.start))
	wall := time.Now().UnixNano()
	since = int64(time.Since(c.start))
	c.offset.Store(min(max(c.offset.Load(), wall-since), wall-before))
	c.anchored.Store(since)
	return since
}

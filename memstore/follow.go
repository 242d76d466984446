package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A followedClock is an estimate of another store's clock, taken from its answers. It runs on this machine's
// monotonic clock, which does not step. It may be behind by the transit time of an answer, and it is never
// ahead unless the other clock stepped back.
type followedClock struct {
	began time.Time
	ahead atomic.Int64 // µs to add to the time since began to get the other clock; 0: no clock is followed
	heard atomic.Int64 // the last instant compared
	taken atomic.Int64 // when ahead was set, in µs since began
}

const (
	compareEvery = 1_000     // µs between two comparisons with the clock
	trustFor     = 1_000_000 // µs after which a later answer counts even if it is behind
)

func (f *followedClock) now() (_ algorithm.Instant, ok bool) {
	ahead := f.ahead.Load()
	if ahead == 0 {
		return 0, false
	}
	return algorithm.Instant(ahead + time.Since(f.began).Microseconds()), true
}

// compare compares the clock with the instant of an answer that has just arrived. Of the answers within about
// a second, only the fastest counts: it is the one furthest ahead.
func (f *followedClock) compare(now algorithm.Instant) {
	if since := int64(now) - f.heard.Load(); since >= 0 && since < compareEvery {
		return
	}
	f.heard.Store(int64(now))
	passed := time.Since(f.began).Microseconds()
	ahead, known := int64(now)-passed, f.ahead.Load()
	if known == 0 || ahead > known || passed-f.taken.Load() > trustFor {
		f.ahead.Store(ahead)
		f.taken.Store(passed)
	}
}

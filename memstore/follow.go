package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A followed is the clock of another store, as far as that store's answers tell. It runs by this
// machine's monotonic clock, which does not step. It may be behind by as long as an answer was on its
// way, and is never ahead unless the other clock stepped back.
type followed struct {
	began time.Time
	ahead atomic.Int64 // µs from the time since began to the other clock; 0: nothing is followed
	heard atomic.Int64 // the last instant that was compared
	taken atomic.Int64 // when ahead was, in µs since began
}

const (
	compareEvery = 1_000     // µs between two answers that are compared with the clock
	trustFor     = 1_000_000 // µs after which a later answer counts even if it is behind
)

func (f *followed) now() (_ algorithm.Instant, ok bool) {
	ahead := f.ahead.Load()
	if ahead == 0 {
		return 0, false
	}
	return algorithm.Instant(ahead + time.Since(f.began).Microseconds()), true
}

// hear compares the clock with an instant of an answer that has just arrived. Of the answers of about
// a second the quickest counts, which is the one that is furthest ahead.
func (f *followed) hear(now algorithm.Instant) {
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

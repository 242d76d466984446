package memstore

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

func realNow() algorithm.Instant { return algorithm.InstantOf(time.Now()) }

func TestClockFollowsTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.init()
		for _, pause := range []time.Duration{0, time.Microsecond, anchorFor - 1, anchorFor, time.Hour, 999 * time.Microsecond} {
			time.Sleep(pause)
			if now := c.now(); now != realNow() {
				t.Errorf("after %v: %d, want %d", pause, now, realNow())
			}
		}
		c.offset.Add(int64(time.Hour)) // as if the wall clock had been set back
		time.Sleep(anchorFor)
		if now := c.now(); now != realNow() {
			t.Errorf("after a step: %d, want %d", now, realNow())
		}
		// The clock advances without a goroutine.
		c.anchored.Add(int64(time.Hour))
		time.Sleep(time.Minute)
		if now := c.now(); now != realNow() {
			t.Errorf("a minute without a new anchor: %d, want %d", now, realNow())
		}
	})
}

// A span is when a request that passed was made and when it returned.
type span struct{ start, end algorithm.Instant }

// hammer makes requests from several goroutines for a while, on processors that are also busy with other
// work, and returns those that passed. Each goroutine takes one by one, or several in a batch.
func hammer(t *testing.T, s *Store, m *algorithm.Meter, d time.Duration, batch int) (passed []span) {
	var mu sync.Mutex
	var group sync.WaitGroup
	const slew = 100 // µs: the wall clock may be adjusted by a few until the next anchor
	until := time.Now().Add(d)
	for range 2 * runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for time.Now().Before(until) {
			}
		})
		group.Go(func() {
			var mine []span
			turns := make([]storage.BatchItem, batch)
			for i := range turns {
				turns[i].Ticket = *single(1, m, 1)
			}
			for {
				start := realNow()
				if start.Time().After(until) {
					break
				}
				if batch == 1 {
					turns[0].Err = s.Take(t.Context(), &turns[0].Ticket, &turns[0].Outcome)
				} else {
					s.TakeEach(t.Context(), turns)
				}
				end := realNow()
				for i := range turns {
					out, err := &turns[i].Outcome, turns[i].Err
					if err != nil || out.Now < start-slew || out.Now > end+slew {
						t.Errorf("a call from %d to %d was decided at %d, %v", start, end, out.Now, err)
						return
					}
					if out.Allowed {
						mine = append(mine, span{start, end})
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			passed = append(passed, mine...)
		})
	}
	group.Wait()
	slices.SortFunc(passed, func(a, b span) int { return int(a.start - b.start) })
	return passed
}

// No real window of time holds more than the limit, however late goroutines run.
func TestLimitsHoldByTheRealClock(t *testing.T) {
	const count, window = 50, 100 * time.Millisecond
	length := time.Second / 2
	if testing.Short() {
		length /= 4
	}
	wide := algorithm.Instant(window / time.Microsecond)
	within := func(passed []span, from, to algorithm.Instant) (n int64) {
		for _, p := range passed {
			if p.start >= from && p.end < to {
				n++
			}
		}
		return n
	}
	t.Run("log", func(t *testing.T) {
		m := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: count, Window: window})
		passed := hammer(t, open(t, Options{}), m, length, 1)
		for _, p := range passed {
			if n := within(passed, p.start, p.start+wide); n > count {
				t.Fatalf("%d passed truly within %v, the limit is %d", n, window, count)
			}
		}
	})
	for name, l := range map[string]algorithm.Limit{
		"window":  {Algorithm: algorithm.FixedWindow, Count: count, Window: window},
		"counter": {Algorithm: algorithm.SlidingWindowCounter, Count: count, Window: window},
		"bucket":  {Algorithm: algorithm.TokenBucket, Count: count, Window: window},
	} {
		for _, batch := range []int{1, 20} {
			t.Run(fmt.Sprint(name, " in batches of ", batch), func(t *testing.T) {
				most := int64(count)
				if l.Algorithm == algorithm.TokenBucket {
					most *= 2 // a full bucket, and what it gains
				}
				passed := hammer(t, open(t, Options{}), limit(t, l), length, batch)
				for _, p := range passed {
					from := p.start - p.start%wide
					if n := within(passed, from, from+wide); n > most {
						t.Fatalf("%d passed truly within one window, at most %d may", n, most)
					}
				}
			})
		}
	}
}

// A goroutine may be descheduled after the batch's instant was read. By then others may have written states
// more than a window ahead of it, which would look like a clock that was set back.
func TestBatchInstantThatIsTooOld(t *testing.T) {
	s := open(t, Options{})
	m := limit(t, algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 5, Window: time.Hour})
	ticket := single(1, m, 1)
	first := take(t, s, ticket).Now
	var out storage.Outcome
	place := s.placeOf(ticket)
	if err := place.take(ticket, &out, first-2*algorithm.Instant(time.Hour/time.Microsecond)); err != nil {
		t.Fatal(err)
	}
	if out.Now < first || out.Decisions[0].Used != 2 {
		t.Errorf("decided at %d after %d, %+v", out.Now, first, out.Decisions)
	}
}

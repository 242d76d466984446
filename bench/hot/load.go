package hot

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock"
)

// A load is clients that send the next request as soon as they have the answer, all for one key.
type load struct {
	nodes      []penstock.Decider // client i uses node i modulo their number
	callers    int
	path, user string
	duration   time.Duration
	window     time.Duration // period by which allowed requests are counted
}

// loadResult is the result of a load.
type loadResult struct {
	decisions int64
	elapsed   time.Duration
	latency   *hdrhistogram.Histogram    // ns
	windows   map[penstock.Instant]int64 // allowed requests in each, by its start
}

func newLoadResult() loadResult {
	return loadResult{
		latency: hdrhistogram.New(1, time.Minute.Nanoseconds(), 2),
		windows: map[penstock.Instant]int64{},
	}
}

func (s *loadResult) perSecond() float64 { return float64(s.decisions) / s.elapsed.Seconds() }

// micros returns a percentile of the latency.
func (s *loadResult) micros(percentile float64) float64 {
	return float64(s.latency.ValueAtPercentile(percentile)) / 1e3
}

func (s *loadResult) admitted() (all int64) {
	for _, n := range s.windows {
		all += n
	}
	return all
}

// fullest returns the most requests allowed in one window.
func (s *loadResult) fullest() (most int64) {
	for _, n := range s.windows {
		most = max(most, n)
	}
	return most
}

// emptiest returns the fewest requests allowed in one window, without the first and the last, which are not whole.
// If there are no others, it returns the most.
func (s *loadResult) emptiest() int64 {
	starts := slices.Sorted(maps.Keys(s.windows))
	if len(starts) < 3 {
		return s.fullest()
	}
	least := s.windows[starts[1]]
	for _, start := range starts[1 : len(starts)-1] {
		least = min(least, s.windows[start])
	}
	return least
}

func (s *loadResult) add(more loadResult) {
	s.decisions += more.decisions
	s.latency.Merge(more.latency)
	for start, n := range more.windows {
		s.windows[start] += n
	}
}

func (l load) run(ctx context.Context) (loadResult, error) {
	total := newLoadResult()
	var failed error
	var mu sync.Mutex
	var callers sync.WaitGroup
	began := time.Now()
	for i := range l.callers {
		callers.Go(func() {
			one, err := l.call(ctx, l.nodes[i%len(l.nodes)], began.Add(l.duration))
			mu.Lock()
			defer mu.Unlock()
			total.add(one)
			if failed == nil { // a lost server fails all clients in the same way
				failed = err
			}
		})
	}
	callers.Wait()
	total.elapsed = time.Since(began)
	return total, failed
}

// call sends requests until the time is up, but at least one.
func (l load) call(ctx context.Context, node penstock.Decider, until time.Time) (loadResult, error) {
	s := newLoadResult()
	c := newCall(l.path, l.user, 1)
	var v penstock.Verdict
	window := penstock.Instant(l.window.Microseconds())
	for now := time.Now(); ; {
		if err := node.Decide(ctx, c, &v); err != nil {
			return s, fmt.Errorf("%s of %q: %w", l.path, l.user, err)
		}
		after := time.Now()
		s.decisions++
		if v.Allowed {
			// Leases do not outlive their window, so the verdict's time is in the window that was charged.
			s.windows[v.Now-v.Now%window]++
		}
		if err := s.latency.RecordValue(max(1, after.Sub(now).Nanoseconds())); err != nil {
			return s, fmt.Errorf("note a latency of %v: %w", after.Sub(now), err)
		}
		if now = after; !now.Before(until) {
			return s, nil
		}
	}
}

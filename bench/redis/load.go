package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock/bench/remote"
)

// A Load is clients that send the next request as soon as they have the answer.
type Load struct {
	Callers  int
	Keys     []string
	Duration time.Duration

	MayGiveUp bool // errors are counted instead of ending the load
	MayDeny   bool
}

// LoadResult is the result of a Load.
type LoadResult struct {
	Decisions int64
	GaveUp    int64
	Elapsed   time.Duration
	Latency   *hdrhistogram.Histogram // µs
}

// PerSecond returns decisions per second.
func (s LoadResult) PerSecond() float64 { return float64(s.Decisions) / s.Elapsed.Seconds() }

// NewHistogram returns a histogram for latencies from 1 µs to a minute, with a precision of one percent.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 2)
}

// Run puts the load on a limiter.
func (l Load) Run(ctx context.Context, limiter remote.Limiter) (LoadResult, error) {
	total := LoadResult{Latency: NewHistogram()}
	var failed error
	var mu sync.Mutex
	var callers sync.WaitGroup
	start := time.Now()
	for i := range l.Callers {
		callers.Go(func() {
			served, err := l.call(ctx, limiter.Caller(), uint64(i), start.Add(l.Duration))
			mu.Lock()
			defer mu.Unlock()
			total.Decisions += served.Decisions
			total.GaveUp += served.GaveUp
			total.Latency.Merge(served.Latency)
			if failed == nil { // a lost server fails all clients in the same way
				failed = err
			}
		})
	}
	callers.Wait()
	total.Elapsed = time.Since(start)
	if failed == nil && total.Decisions == 0 {
		failed = errors.New("not one call was decided")
	}
	return total, failed
}

// call sends requests until the time is up, but at least one: on a busy machine a client may start late.
func (l Load) call(ctx context.Context, take remote.TakeFunc, seed uint64, until time.Time) (LoadResult, error) {
	s := LoadResult{Latency: NewHistogram()}
	random := rand.New(rand.NewPCG(seed, uint64(until.UnixNano())))
	patient := context.WithoutCancel(ctx) // every limiter has its own timeout
	for now := time.Now(); ; {
		key := l.Keys[random.IntN(len(l.Keys))]
		allowed, err := take(patient, key)
		after := time.Now()
		switch {
		case err != nil && l.MayGiveUp && ctx.Err() == nil:
			s.GaveUp++
		case err != nil:
			return s, fmt.Errorf("charge %q: %w", key, err)
		case !allowed && !l.MayDeny:
			return s, fmt.Errorf("charge %q: denied, but the limit should let all pass", key)
		default:
			s.Decisions++
			if err := s.Latency.RecordValue(max(1, after.Sub(now).Microseconds())); err != nil {
				return s, fmt.Errorf("note a latency of %v: %w", after.Sub(now), err)
			}
		}
		if now = after; !now.Before(until) || ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
	}
}

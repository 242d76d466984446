package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// An OpenLoop is requests that arrive at equal distances, whatever happens to earlier ones: a server that stalls delays
// all the requests that are due meanwhile, not one.
type OpenLoop struct {
	PerSecond float64
	Duration  time.Duration
	Keys      []string
}

const (
	// crowd is how many requests may be waiting at once. Beyond it the server is not keeping up, and latency at that
	// rate is meaningless.
	crowd = 20_000

	// fewest is the minimum number of requests, however short the schedule is, because percentiles need some.
	fewest = 10

	// nap is the shortest sleep of the scheduler. Requests that fall due meanwhile start that much late, which counts.
	// Waking for every request would take a processor that others need.
	nap = 100 * time.Microsecond
)

// Run follows the schedule and returns when the last request has its response. A latency is from the scheduled instant
// to the response. Latencies exclude the first tenth of the schedule, which fills pools and grows stacks.
func (o OpenLoop) Run(ctx context.Context, limiter Limiter) (LoadResult, error) {
	// The thread that keeps time does nothing else. It sleeps in the kernel and wakes on time; the runtime's timers
	// may be a millisecond late. The runtime gets one more processor for it, so that the clients cannot keep it from
	// waking: it represents other machines, which would not compete with this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + 1)
	defer runtime.GOMAXPROCS(procs)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Each request records its times in its own place, at no cost to the others.
	requests := max(fewest, int(o.PerSecond*o.Duration.Seconds()))
	latency, lateness := make([]time.Duration, requests), make([]time.Duration, requests)
	idle, callers := make(chan TakeFunc, crowd), 0
	var underway sync.WaitGroup
	gap := float64(time.Second) / o.PerSecond
	start := time.Now()
	for n := 0; n < requests && ctx.Err() == nil; {
		due := start.Add(time.Duration(float64(n) * gap))
		late := time.Since(due)
		if late < 0 {
			Sleep(max(-late, nap))
			continue
		}
		var take TakeFunc
		select {
		case take = <-idle:
		default:
			if callers++; callers > crowd {
				cancel(fmt.Errorf("more than %d requests are waiting: %.0f a second is too much", crowd, o.PerSecond))
				continue
			}
			take = limiter.Caller()
		}
		lateness[n] = late
		request, key := n, o.Keys[rand.IntN(len(o.Keys))]
		underway.Go(func() {
			allowed, err := take(context.Background(), key) // the store's own timeout is enough
			if err == nil && !allowed {
				err = errors.New("denied, but the limit has room for all")
			}
			if err != nil {
				cancel(fmt.Errorf("charge %q: %w", key, err))
			}
			idle <- take
			latency[request] = time.Since(due)
		})
		n++
	}
	underway.Wait()
	if ctx.Err() != nil {
		return LoadResult{}, context.Cause(ctx)
	}
	w := LoadResult{Decisions: int64(requests), Elapsed: time.Since(start), Latency: newHistogram(), Late: newHistogram()}
	for i := requests / 10; i < requests; i++ {
		record(w.Latency, latency[i])
		record(w.Late, lateness[i])
	}
	return w, nil
}

// Saturation returns the highest rate that a loop keeps up with, in steps of a tenth of the rate of callers that send
// without pause. It is lower than theirs: requests that come one by one are batched less, and the loop's scheduler and
// its goroutines use the same processors. The 99th percentile of the latency is at most keptUp while a loop keeps up;
// otherwise, requests wait longer and longer.
func Saturation(ctx context.Context, limiter Limiter, keys []string, closed float64, probe, keptUp time.Duration) (float64, error) {
	for tenths := 10; tenths > 0; tenths-- {
		rate := closed * float64(tenths) / 10
		w, err := OpenLoop{PerSecond: rate, Duration: probe, Keys: keys}.Run(ctx, limiter)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err == nil && w.Latency.ValueAtPercentile(99) <= keptUp.Nanoseconds() {
			return rate, nil
		}
	}
	return 0, fmt.Errorf("no rate from %.0f a second down can be kept up", closed)
}

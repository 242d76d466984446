package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock/memstore"
)

// A TakeFunc charges one to the key and reports whether it was allowed.
type TakeFunc func(ctx context.Context, key string) (allowed bool, err error)

// A Limiter is what a load asks.
type Limiter struct {
	// Caller returns a TakeFunc for one goroutine, which may keep its own scratch memory.
	Caller func() TakeFunc

	// Warm creates the state of a key so that it lasts for the rest of the benchmark. It charges more than one for a
	// limiter that drops a key once it has refilled.
	Warm TakeFunc

	Stats func() memstore.Stats // of our store in memory; otherwise nil
}

// Shared returns a limiter that keeps nothing per goroutine, and warms a key by taking once.
func Shared(take TakeFunc) Limiter {
	return Limiter{Caller: func() TakeFunc { return take }, Warm: take}
}

// A ClosedLoop is callers that send the next request as soon as they have the answer.
type ClosedLoop struct {
	Callers   int
	Duration  time.Duration // each caller sends at least one request: on a busy machine it may start late
	Requests  int           // of each caller, instead of a duration
	Unwatched bool          // record no latencies, which cost as much as the fastest decisions
}

// LoadResult is the result of a load.
type LoadResult struct {
	Decisions int64
	GaveUp    int64
	Elapsed   time.Duration
	Latency   *hdrhistogram.Histogram // ns
	Late      *hdrhistogram.Histogram // of an open loop, in ns: how long after its instant a request was sent, the share of the schedule itself
}

// PerSecond returns decisions per second.
func (r LoadResult) PerSecond() float64 { return float64(r.Decisions) / r.Elapsed.Seconds() }

// Millis returns a percentile of the latency.
func (r LoadResult) Millis(percentile float64) float64 {
	return float64(r.Latency.ValueAtPercentile(percentile)) / 1e6
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Minute.Nanoseconds(), 2) }

// record counts a latency. Those above a minute count as one.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(1, d.Nanoseconds()), h.HighestTrackableValue())) // fails only outside of these bounds
}

// ErrGaveUp is the error of a request that was not decided, which is counted and does not end the load.
var ErrGaveUp = errors.New("gave up")

// Run runs the load. caller returns what one caller does for each of its requests; n counts from 0.
func (l ClosedLoop) Run(ctx context.Context, caller func(i int) func(n int) error) (LoadResult, error) {
	total := LoadResult{Latency: newHistogram()}
	var mu sync.Mutex
	start := time.Now()
	err := Parallel(l.Callers, func(i int) error {
		own := LoadResult{Latency: newHistogram()}
		err := l.call(ctx, caller(i), start.Add(l.Duration), &own)
		mu.Lock()
		defer mu.Unlock()
		total.Decisions += own.Decisions
		total.GaveUp += own.GaveUp
		total.Latency.Merge(own.Latency)
		return err
	})
	total.Elapsed = time.Since(start)
	if err == nil && total.Decisions == 0 {
		err = errors.New("not one request was decided")
	}
	return total, err
}

func (l ClosedLoop) call(ctx context.Context, ask func(n int) error, until time.Time, r *LoadResult) error {
	now := time.Now()
	for n := 0; ; {
		err := ask(n)
		after := time.Now()
		switch {
		case err == nil:
			r.Decisions++
			if !l.Unwatched {
				record(r.Latency, after.Sub(now))
			}
		case errors.Is(err, ErrGaveUp) && ctx.Err() == nil:
			r.GaveUp++
		default:
			return err
		}
		now = after
		if n++; n == l.Requests || l.Requests == 0 && !now.Before(until) || ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// A Load is a closed loop on random keys of a limiter.
type Load struct {
	ClosedLoop
	Keys      []string
	MayGiveUp bool // errors are counted and do not end the load
	MayDeny   bool
}

// Run puts the load on a limiter.
func (l Load) Run(ctx context.Context, limiter Limiter) (LoadResult, error) {
	patient := context.WithoutCancel(ctx) // every limiter has its own timeout
	return l.ClosedLoop.Run(ctx, func(i int) func(int) error {
		take, random := limiter.Caller(), rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))
		return func(int) error {
			key := l.Keys[random.IntN(len(l.Keys))]
			allowed, err := take(patient, key)
			switch {
			case err != nil && l.MayGiveUp:
				return ErrGaveUp
			case err != nil:
				return fmt.Errorf("charge %q: %w", key, err)
			case !allowed && !l.MayDeny:
				return fmt.Errorf("charge %q: denied, but the limit has room for all", key)
			}
			return nil
		}
	})
}

// Parallel calls do for 0 to n-1, each in its own goroutine, and returns the first error: a lost server fails all in
// the same way.
func Parallel(n int, do func(i int) error) (failed error) {
	var once sync.Once
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := do(i); err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	all.Wait()
	return failed
}

// KeyLength is the length of every key: "key-000000000042".
const KeyLength = 16

// AppendKey appends the key with a number. It is written by hand because millions are made.
func AppendKey(b []byte, i int) []byte {
	b = append(b, "key-000000000000"...)
	for at := len(b) - 1; i > 0; at-- {
		b[at] = byte('0' + i%10)
		i /= 10
	}
	return b
}

// Key returns the key with a number.
func Key(i int) string { return string(AppendKey(nil, i)) }

// Keys returns the first n keys.
func Keys(n int) (keys []string) {
	for i := range n {
		keys = append(keys, Key(i))
	}
	return keys
}

// Warm creates the state of every key, with enough callers to keep a server busy.
func Warm(ctx context.Context, limiter Limiter, keys []string) error {
	const callers = 64
	var next atomic.Int64
	return Parallel(callers, func(int) error {
		for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
			if _, err := limiter.Warm(ctx, keys[i]); err != nil {
				return fmt.Errorf("warm %q: %w", keys[i], err)
			}
		}
		return nil
	})
}

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

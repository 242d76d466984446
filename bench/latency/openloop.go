package latency

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock/bench/network"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/remote"
)

// An OpenLoop is requests that arrive at equal distances, whatever happens to earlier ones.
type OpenLoop struct {
	PerSecond float64
	Duration  time.Duration
	Keys      []string
}

// Latencies is the latency of requests, in µs. It excludes the first tenth of the schedule, which fills pools and
// grows stacks.
type Latencies struct {
	Latency *hdrhistogram.Histogram // from the scheduled instant to the response
	Late    *hdrhistogram.Histogram // from the scheduled instant until the request was sent: the share of the schedule itself
}

// crowd is how many requests may be waiting at once. Beyond it the server is not keeping up, and latency at that
// rate is meaningless.
const crowd = 20_000

// fewest is the minimum number of requests, however short the schedule is, because percentiles need some.
const fewest = 10

// nap is the shortest sleep of the scheduler. Requests that fall due meanwhile start that much late, which
// counts. Waking for every request would take a processor that others need.
const nap = 100 * time.Microsecond

// Run follows the schedule and returns when the last request has its response.
func (o OpenLoop) Run(ctx context.Context, limiter remote.Limiter) (Latencies, error) {
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
	s := newSchedule(limiter, max(fewest, int(o.PerSecond*o.Duration.Seconds())))
	gap := float64(time.Second) / o.PerSecond
	start := time.Now()
	for n := 0; n < len(s.latency) && ctx.Err() == nil; {
		due := start.Add(time.Duration(float64(n) * gap))
		late := time.Since(due)
		if late < 0 {
			network.Sleep(max(-late, nap))
			continue
		}
		take := s.caller()
		if take == nil {
			cancel(fmt.Errorf("more than %d calls are waiting: %.0f a second is too much", crowd, o.PerSecond))
			break
		}
		s.late[n] = late
		call, key := n, o.Keys[rand.IntN(len(o.Keys))]
		s.underway.Go(func() {
			if err := s.call(take, key); err != nil {
				cancel(fmt.Errorf("charge %q: %w", key, err))
			}
			s.latency[call] = time.Since(due)
		})
		n++
	}
	s.underway.Wait()
	if ctx.Err() != nil {
		return Latencies{}, context.Cause(ctx)
	}
	return s.waited()
}

// saturation returns the highest rate that a loop keeps up with, in steps of a tenth of the rate of clients that
// send without pause. It is lower than theirs: requests that come one by one are batched less, and the loop's
// scheduler and its goroutines use the same processors.
//
// keptUp bounds the latency while a loop keeps up. Otherwise, requests wait longer and longer.
func saturation(ctx context.Context, limiter remote.Limiter, keys []string, closed float64, probe, keptUp time.Duration) (float64, error) {
	for tenths := 10; tenths > 0; tenths-- {
		rate := closed * float64(tenths) / 10
		w, err := OpenLoop{PerSecond: rate, Duration: probe, Keys: keys}.Run(ctx, limiter)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if err == nil && w.Latency.ValueAtPercentile(99) <= keptUp.Microseconds() {
			return rate, nil
		}
	}
	return 0, fmt.Errorf("no rate from %.0f a second down can be kept up", closed)
}

// schedule is the requests of a loop. Each records its times in its own place, at no cost to the others.
type schedule struct {
	limiter  remote.Limiter
	callers  int
	idle     chan remote.TakeFunc
	underway sync.WaitGroup
	latency  []time.Duration
	late     []time.Duration
}

func newSchedule(limiter remote.Limiter, calls int) *schedule {
	return &schedule{
		limiter: limiter, idle: make(chan remote.TakeFunc, crowd),
		latency: make([]time.Duration, calls), late: make([]time.Duration, calls),
	}
}

// caller returns an idle Take, or nil if there is already a crowd.
func (s *schedule) caller() remote.TakeFunc {
	select {
	case take := <-s.idle:
		return take
	default:
	}
	if s.callers == crowd {
		return nil
	}
	s.callers++
	return s.limiter.Caller()
}

func (s *schedule) call(take remote.TakeFunc, key string) error {
	defer func() { s.idle <- take }()
	allowed, err := take(context.Background(), key) // the store's own timeout is enough
	if err == nil && !allowed {
		err = errors.New("denied, but the limit should let all pass")
	}
	return err
}

func (s *schedule) waited() (Latencies, error) {
	w := Latencies{Latency: redis.NewHistogram(), Late: redis.NewHistogram()}
	for i := len(s.latency) / 10; i < len(s.latency); i++ {
		if err := errors.Join(note(w.Latency, s.latency[i]), note(w.Late, s.late[i])); err != nil {
			return w, err
		}
	}
	return w, nil
}

func note(h *hdrhistogram.Histogram, d time.Duration) error {
	if err := h.RecordValue(max(1, d.Microseconds())); err != nil {
		return fmt.Errorf("note a latency of %v: %w", d, err)
	}
	return nil
}

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

	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/remote"
)

// An OpenLoop is calls that arrive at equal distances, whatever became of those before.
type OpenLoop struct {
	PerSecond float64
	Duration  time.Duration
	Keys      []string
}

// Waited is what calls waited, in µs. The first tenth of the schedule is not in it: it fills
// pools and grows stacks.
type Waited struct {
	Latency *hdrhistogram.Histogram // from the scheduled instant to the answer
	Late    *hdrhistogram.Histogram // from the scheduled instant until the call began: the schedule's own share
}

// crowd is how many calls may be waiting at once; beyond it the server is not keeping up, and
// the rate is not one to measure latency at.
const crowd = 20_000

// fewest is how many calls are made however short the schedule is: percentiles of none say nothing.
const fewest = 10

// nap is how long the schedule's keeper sleeps at least. What falls due meanwhile begins that much
// late, which counts; waking for every call would take a processor that others need.
const nap = 100 * time.Microsecond

// Run keeps to the schedule and returns when the last call has its answer.
func (o OpenLoop) Run(ctx context.Context, limiter remote.Limiter) (Waited, error) {
	// The thread that keeps time does nothing else, so that its sleep is the kernel's and ends
	// when it should: the runtime's timers may be a millisecond late.
	// And the runtime has room for it beside the callers, who else keep it from waking: it stands
	// for other machines, which would not compete with this one's.
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
			sleep(max(-late, nap))
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
		return Waited{}, context.Cause(ctx)
	}
	return s.waited()
}

// saturation returns the highest rate that a loop keeps up with, in steps of a tenth of what callers
// reach who ask without pause. It is lower than theirs: calls that come one by one gather less, and
// the loop's keeper and its goroutines take their part of the same processors.
//
// keptUp bounds what calls wait while a loop keeps up: where it does not, they wait ever longer.
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

// schedule is the calls of a loop. Each notes its times in a place of its own, which costs the
// calls beside it nothing.
type schedule struct {
	limiter  remote.Limiter
	callers  int
	idle     chan remote.Take
	underway sync.WaitGroup
	latency  []time.Duration
	late     []time.Duration
}

func newSchedule(limiter remote.Limiter, calls int) *schedule {
	return &schedule{
		limiter: limiter, idle: make(chan remote.Take, crowd),
		latency: make([]time.Duration, calls), late: make([]time.Duration, calls),
	}
}

// caller returns a Take that is idle, or nil if there is a crowd already.
func (s *schedule) caller() remote.Take {
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

func (s *schedule) call(take remote.Take, key string) error {
	defer func() { s.idle <- take }()
	allowed, err := take(context.Background(), key) // the store's own timeout is enough
	if err == nil && !allowed {
		err = errors.New("denied, but the limit should let all pass")
	}
	return err
}

func (s *schedule) waited() (Waited, error) {
	w := Waited{Latency: redis.NewHistogram(), Late: redis.NewHistogram()}
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

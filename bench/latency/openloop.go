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
	s := newSchedule(limiter, int(o.PerSecond*o.Duration.Seconds()))
	gap := float64(time.Second) / o.PerSecond
	start := time.Now()
	for n := 0; n < len(s.latency) && ctx.Err() == nil; {
		due := start.Add(time.Duration(float64(n) * gap))
		late := time.Since(due)
		if late < 0 {
			sleep(-late)
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
			if err := s.call(ctx, take, key); err != nil {
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

func (s *schedule) call(ctx context.Context, take remote.Take, key string) error {
	defer func() { s.idle <- take }()
	allowed, err := take(ctx, key)
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

package envoy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstock-io/penstock/bench/latency"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
)

// callers are the numbers of clients that send requests without pause; the last is for saturation.
var callers = []int{16, 64, 256}

// A runner is a running contestant, with its results by traffic and figure.
type runner struct {
	contestant
	server *server
	askers map[string]*loadTarget
	report.Samples
}

// Options configure how much is measured.
type Options struct {
	Keys   int           // allowed keys; a tenth as many are denied
	Cell   time.Duration // of one repeat of one figure
	Repeat int
	Stderr *os.File // for progress
}

// bench holds all contestants.
type bench struct {
	options  Options
	keys     []string
	runners  []*runner
	progress *report.Progress
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	s = report.Section{Name: "envoy", Title: "Envoy's rate limit service on Redis", Notes: notes}
	dir, err := os.MkdirTemp("", "penstock-envoy-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{options: o, keys: redis.Keys(o.Keys)}
	n := len(contestants(""))
	b.progress = report.Begin(o.Stderr, "envoy", 1+n+len(traffics)*n*o.Repeat*(len(callers)+1))
	defer b.progress.End()
	defer b.stop()
	if err := b.start(ctx, dir); err != nil {
		return s, err
	}
	for _, t := range traffics {
		if err := b.atFullSpeed(ctx, t); err != nil {
			return s, err
		}
		rate, err := b.atFixedInstants(ctx, t)
		if err != nil {
			return s, err
		}
		b.add(&s, t, rate)
	}
	return s, nil
}

// start starts all of them, verifies that they do the same, and fills them.
func (b *bench) start(ctx context.Context, dir string) error {
	b.progress.Step("build")
	if err := build(ctx, dir); err != nil {
		return err
	}
	for _, c := range contestants(dir) {
		b.progress.Step("start and fill %s", c.name)
		s, err := launch(ctx, dir, c)
		if err != nil {
			return err
		}
		r := &runner{c, s, map[string]*loadTarget{}, report.Samples{}}
		b.runners = append(b.runners, r)
		if err := check(ctx, s); err != nil && c.role != report.Ceiling {
			return fmt.Errorf("check %s: %w", c.name, err)
		}
		for _, t := range traffics {
			a, err := newLoadTarget(s, t)
			if err != nil {
				return err
			}
			if err := redis.Warm(ctx, a, b.keysOf(t)); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r.askers[t.name] = a
		}
	}
	return nil
}

func (b *bench) keysOf(t traffic) []string { return b.keys[:max(1, len(b.keys)/t.of)] }

func (b *bench) stop() {
	for _, r := range b.runners {
		r.server.stop()
	}
}

// Figures.
const (
	serverCPU = "server CPU"
	redisCPU  = "Redis CPU"
	p50, p99  = "p50", "p99"

	scheduled = "scheduled " // prefix of figures measured on a schedule
)

func perSecond(callers int) string { return fmt.Sprintf("decisions, %d callers", callers) }

// atFullSpeed measures with clients that send requests without pause.
func (b *bench) atFullSpeed(ctx context.Context, t traffic) error {
	for range b.options.Repeat {
		for _, n := range callers {
			for _, r := range b.runners {
				b.progress.Step("%s, %d callers: %s", t.name, n, r.name)
				if err := r.atFullSpeed(ctx, t, redis.Load{Callers: n, Keys: b.keysOf(t), Duration: b.options.Cell}); err != nil {
					return fmt.Errorf("%s, %s, %d callers: %w", r.name, t.name, n, err)
				}
			}
		}
	}
	return nil
}

func (r *runner) atFullSpeed(ctx context.Context, t traffic, load redis.Load) error {
	before, err := r.server.used()
	if err != nil {
		return err
	}
	served, err := load.Run(ctx, r.askers[t.name])
	if err != nil {
		return err
	}
	r.Add(t.name, perSecond(load.Callers), served.PerSecond())
	if load.Callers != callers[len(callers)-1] {
		return nil
	}
	r.Add(t.name, p50, float64(served.Latency.ValueAtPercentile(50))/1e3)
	r.Add(t.name, p99, float64(served.Latency.ValueAtPercentile(99))/1e3)
	return r.noteUsed(t.name, "", before, served.Decisions)
}

func (r *runner) noteUsed(traffic, prefix string, before cpuTime, decisions int64) error {
	after, err := r.server.used()
	if err != nil {
		return err
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(decisions) }
	r.Add(traffic, prefix+serverCPU, each(after.server-before.server))
	r.Add(traffic, prefix+redisCPU, each(after.redis-before.redis))
	return nil
}

// atFixedInstants measures with requests on a schedule, at a rate that all can sustain, and returns the rate.
func (b *bench) atFixedInstants(ctx context.Context, t traffic) (rate float64, err error) {
	for i, r := range b.runners {
		if most := r.saturation(t.name); i == 0 || most < rate {
			rate = most
		}
	}
	rate /= 3
	for range b.options.Repeat {
		for _, r := range b.runners {
			b.progress.Step("%s, %.0f/s: %s", t.name, rate, r.name)
			if err := r.atFixedInstants(ctx, t, latency.OpenLoop{PerSecond: rate, Duration: b.options.Cell, Keys: b.keysOf(t)}); err != nil {
				return rate, fmt.Errorf("%s, %s, %.0f a second: %w", r.name, t.name, rate, err)
			}
		}
	}
	return rate, nil
}

// saturation returns the most decisions per second, over all numbers of clients.
func (r *runner) saturation(traffic string) (most float64) {
	for _, n := range callers {
		most = max(most, r.Median(traffic, perSecond(n)))
	}
	return most
}

func (r *runner) atFixedInstants(ctx context.Context, t traffic, loop latency.OpenLoop) error {
	before, err := r.server.used()
	if err != nil {
		return err
	}
	waited, err := loop.Run(ctx, r.askers[t.name])
	if err != nil {
		return err
	}
	r.Add(t.name, scheduled+p50, float64(waited.Latency.ValueAtPercentile(50))/1e3)
	r.Add(t.name, scheduled+p99, float64(waited.Latency.ValueAtPercentile(99))/1e3)
	return r.noteUsed(t.name, scheduled, before, int64(loop.PerSecond*loop.Duration.Seconds()))
}

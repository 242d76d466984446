// Package loadgen sends load to a limiter and measures its behaviour: latency from the scheduled time of a
// request, errors, and whether more was allowed than the limit permits.
package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/poll"
)

// An Answer is the target's answer to one request.
type Answer struct {
	Allowed bool
	Limit   *Limit // limit that decided, if the target reports it; nil: it does not
}

// A Target decides a request of a key.
type Target func(ctx context.Context, key string) (Answer, error)

// Options configure how load is generated.
type Options struct {
	Target   Target
	Rate     float64       // requests per second, sent when they are due (open loop); 0: as fast as they are answered (closed loop)
	Workers  int           // requests that can be in flight at once
	Requests int64         // at most; 0: until the duration is over
	Duration time.Duration // at most; 0: until all requests are sent
	Keys     int
	Zipf     float64 // exponent of the distribution of requests over keys, above 1; 0: uniform
	Seed     uint64
	Prefix   string // of keys

	Limit    *Limit               // limit of each key; nil: the one that the target reports, if it does
	Progress func(requests int64) // may be nil
}

// A Result is what was measured.
type Result struct {
	Requests int64         `json:"requests"`
	Allowed  int64         `json:"allowed"`
	Denied   int64         `json:"denied"`
	Failed   int64         `json:"failed"`
	Took     time.Duration `json:"took_ns"`
	Rate     float64       `json:"requests_per_second"`
	Wanted   float64       `json:"wanted_requests_per_second,omitempty"`
	Latency  []Percentile  `json:"latency"`
	Errors   []ErrorCount  `json:"errors,omitempty"`

	// Lag is how late the generator itself was for requests that a worker was waiting to send: the 99th percentile. A
	// large value means that the machine was too busy to measure.
	Lag time.Duration `json:"generator_lag_p99_ns"`

	Over OverAdmission `json:"over_admission"`
}

// A Percentile is the latency that a share of requests did not exceed.
type Percentile struct {
	Percent float64       `json:"percent"`
	Latency time.Duration `json:"latency_ns"`
}

// An ErrorCount is how often an error occurred.
type ErrorCount struct {
	Error string `json:"error"`
	Count int64  `json:"count"`
}

var percents = []float64{50, 90, 95, 99, 99.9, 99.99, 100}

// Bounds of a run.
const (
	maxWorkers  = 10_000
	maxKeys     = 10_000_000
	maxRate     = 1e6
	maxDuration = 24 * time.Hour
	maxErrors   = 20        // different errors that are counted separately
	maxAdmitted = 4_000_000 // allowed requests that are checked afterwards
	longest     = 10 * time.Minute
)

// Validate reports every error.
func (o *Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(o.Rate >= 0 && o.Rate <= maxRate, "rate %v is not from 0 to %v requests a second", o.Rate, float64(maxRate))
	check(o.Workers >= 1 && o.Workers <= maxWorkers, "%d workers; there can be from 1 to %d", o.Workers, maxWorkers)
	check(o.Keys >= 1 && o.Keys <= maxKeys, "%d keys; there can be from 1 to %d", o.Keys, maxKeys)
	check(o.Zipf == 0 || o.Zipf > 1 && o.Zipf <= 10, "zipf exponent %v is not 0 or above 1 and at most 10", o.Zipf)
	check(o.Requests >= 0 && o.Duration >= 0 && o.Duration <= maxDuration, "%d requests for %v; both are at least 0, and the time at most %v", o.Requests, o.Duration, maxDuration)
	check(o.Requests > 0 || o.Duration > 0, "neither a number of requests nor a duration: it would never end")
	if o.Limit != nil {
		errs = append(errs, o.Limit.terms().Validate())
	}
	return errors.Join(errs...)
}

// A worker sends one request at a time.
type worker struct {
	*run
	random   *rand.Rand
	zipf     *rand.Zipf
	allowed  int64
	denied   int64
	failed   int64
	errors   map[string]int64
	admitted []admission
	limit    *Limit
}

// A run is load in progress.
type run struct {
	Options
	began time.Time
	sent  atomic.Int64
	kept  atomic.Int64 // allowed requests that are checked

	mu      sync.Mutex // one pair for all workers, as a histogram takes 200 KB
	latency *hdrhistogram.Histogram
	lag     *hdrhistogram.Histogram
}

// record counts a duration.
func (r *run) record(h *hdrhistogram.Histogram, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = h.RecordValue(int64(min(max(d, 1), longest))) // fails only outside of these bounds
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(longest), 3) }

// Run sends the load. It ends when the context does, and returns what was measured until then.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{Options: o, latency: newHistogram(), lag: newHistogram()}
	workers := make([]*worker, o.Workers)
	for i := range workers {
		w := &worker{run: r, random: rand.New(rand.NewPCG(o.Seed, uint64(i))), errors: map[string]int64{}}
		if o.Zipf > 0 {
			w.zipf = rand.NewZipf(w.random, o.Zipf, 1, uint64(o.Keys-1))
		}
		workers[i] = w
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	r.began = time.Now()
	for _, w := range workers {
		wait.Go(func() { w.work(ctx) })
	}
	go func() {
		defer close(done)
		wait.Wait()
	}()
	r.follow(done)
	return r.result(workers, time.Since(r.began)), nil
}

// follow reports the progress until the run is done.
func (r *run) follow(done <-chan struct{}) {
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-done:
			tick.Stop()
			return
		case <-tick.C:
			if r.Progress != nil {
				r.Progress(r.sent.Load())
			}
		}
	}
}

func (w *worker) work(ctx context.Context) {
	for ctx.Err() == nil {
		i := w.sent.Add(1) - 1
		due := time.Since(w.began)
		if w.Rate > 0 {
			due = time.Duration(float64(i) / w.Rate * float64(time.Second))
		}
		if w.Requests > 0 && i >= w.Requests || w.Duration > 0 && due >= w.Duration {
			return
		}
		if early := due - time.Since(w.began); early > 0 {
			if poll.Pause(ctx, early) != nil {
				return
			}
			w.record(w.lag, time.Since(w.began)-due)
		}
		w.send(ctx, due)
	}
}

// send sends one request. Its latency counts from when it was due, so that a target cannot hide the time for
// which it keeps requests waiting.
func (w *worker) send(ctx context.Context, due time.Duration) {
	key := 0
	if w.zipf != nil {
		key = int(w.zipf.Uint64())
	} else {
		key = w.random.IntN(w.Keys)
	}
	start := time.Since(w.began)
	answer, err := w.Target(ctx, w.Prefix+strconv.Itoa(key))
	end := time.Since(w.began)
	if err != nil && ctx.Err() != nil {
		return // interrupted
	}
	w.record(w.latency, end-due)
	switch {
	case err != nil:
		w.failed++
		if text := err.Error(); w.errors[text] > 0 || len(w.errors) < maxErrors {
			w.errors[text]++
		} else {
			w.errors["others"]++
		}
	case answer.Allowed:
		w.allowed++
		if w.kept.Add(1) <= maxAdmitted {
			w.admitted = append(w.admitted, admission{key, start, end})
		}
	default:
		w.denied++
	}
	if answer.Limit != nil && w.limit == nil {
		w.limit = answer.Limit
	}
}

func (r *run) result(workers []*worker, took time.Duration) *Result {
	result := &Result{Took: took, Wanted: r.Rate}
	counts := map[string]int64{}
	var admitted []admission
	limit := r.Limit
	for _, w := range workers {
		result.Allowed, result.Denied, result.Failed = result.Allowed+w.allowed, result.Denied+w.denied, result.Failed+w.failed
		for text, n := range w.errors {
			counts[text] += n
		}
		admitted = append(admitted, w.admitted...)
		if limit == nil {
			limit = w.limit
		}
	}
	result.Requests = result.Allowed + result.Denied + result.Failed
	result.Rate = float64(result.Requests) / max(took.Seconds(), 1e-9)
	for _, p := range percents {
		result.Latency = append(result.Latency, Percentile{p, time.Duration(r.latency.ValueAtQuantile(p))})
	}
	result.Lag = time.Duration(r.lag.ValueAtQuantile(99))
	for text, n := range counts {
		result.Errors = append(result.Errors, ErrorCount{text, n})
	}
	slices.SortFunc(result.Errors, func(a, b ErrorCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Error, b.Error)) })
	result.Over = check(admitted, limit, r.began, r.kept.Load() > maxAdmitted)
	return result
}

// LimitOf returns the limit that decided a verdict, or nil if there is none, or several.
func LimitOf(v *penstock.Verdict) *Limit {
	var found *Limit
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Shadow {
			continue
		}
		if found != nil {
			return nil
		}
		found = &Limit{Algorithm: l.Algorithm, Count: l.Count, Window: l.Window}
		if l.Algorithm == penstock.TokenBucket {
			found.Burst = l.Limit
		}
	}
	return found
}

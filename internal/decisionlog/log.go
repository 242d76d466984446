package decisionlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/poll"
)

// Mode is how much is logged.
type Mode string

const (
	All     Mode = "all"     // every decision and every failure
	Sampled Mode = "sampled" // for each rule the first, every power of ten, and a summary
	None    Mode = "none"    // failures only, sampled
)

// Options configure a log.
type Options struct {
	Log   *slog.Logger
	Mode  Mode          // default Sampled
	Every time.Duration // between two summaries; default 10 s

	// KeyPrefix is the prefix of the store's keys; "": its keys have no names.
	KeyPrefix string

	// Cause returns the kind of a store error, out of few. The first of each kind is logged in full, whatever other
	// kinds there are. nil: all are of one kind.
	Cause func(error) string
}

// A Log logs what an engine decides. Its Observe is for engine.Options.
type Log struct {
	options Options
	sampled sampler // for decisions
	failing sampler // for failures, in every mode except All

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// New returns a log. Close it to end the goroutine that writes summaries.
func New(o Options) (*Log, error) {
	o.Mode, o.Every = cmp.Or(o.Mode, Sampled), cmp.Or(o.Every, 10*time.Second)
	var errs []error
	if o.Log == nil {
		errs = append(errs, errors.New("a logger is required"))
	}
	if o.Mode != All && o.Mode != Sampled && o.Mode != None {
		errs = append(errs, fmt.Errorf("mode %q must be all, sampled or none", o.Mode))
	}
	if o.Every < 0 {
		errs = append(errs, fmt.Errorf("a summary every %v: must be positive", o.Every))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new decision log: %w: %w", penstock.ErrInvalid, err)
	}
	if o.Cause == nil {
		o.Cause = func(error) string { return "" }
	}
	l := &Log{options: o}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(context.Background())
	l.ended.Go(func() {
		poll.Every(ctx, o.Every, nil, l.summary)
		l.summary() // the last one
	})
	return l, nil
}

// Close writes the last summaries.
func (l *Log) Close() {
	l.stop()
	l.ended.Wait()
}

// Observe logs a decision, if it is in the sample.
func (l *Log) Observe(o *engine.Observation) {
	for i := range o.Failures {
		l.RuleFailed(&o.Failures[i])
	}
	for i := range o.Fallbacks {
		if o.Fallbacks[i].Reason.IsBad() {
			l.badNumber(&o.Fallbacks[i])
		}
	}
	switch {
	case errors.Is(o.Err, penstock.ErrInvalid):
		l.invalid(o)
		return
	case o.Err != nil:
		l.storeFailed(o)
	}
	kind := kindOf(o.Verdict)
	if l.options.Mode == None || !l.options.Log.Enabled(context.Background(), records[kind].level) {
		return
	}
	if nth, keep := l.sample(&l.sampled, o.Verdict.Rule, kind); keep {
		l.write(kind, nth, decisionAttrs(o))
	}
}

// sample counts a record, unless all are logged. It returns its number and whether to log it.
func (l *Log) sample(s *sampler, of string, k kind) (nth int64, keep bool) {
	if l.options.Mode == All {
		return 0, true
	}
	return s.count(of, k)
}

// write logs a record; nth, if not 0, is its number among its kind since the last summary.
func (l *Log) write(kind kind, nth int64, attrs []slog.Attr) {
	if nth > 1 {
		attrs = append(attrs, slog.Int64("nth", nth))
	}
	l.options.Log.LogAttrs(context.Background(), records[kind].level, records[kind].text, attrs...)
}

func decisionAttrs(o *engine.Observation) []slog.Attr {
	v := o.Verdict
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs, slog.String("rule", v.Rule), slog.String("reason", v.Reason.String()))
	if concerned := concernedBy(o); concerned != nil {
		attrs = append(attrs, slog.String("key_hash", keyHash(concerned)))
	}
	if o.Block != nil {
		attrs = append(attrs, slog.String("block", o.Block.ID)) // not its value, which identifies a client
	}
	if limit := limitOf(v); limit != nil {
		attrs = append(attrs, slog.Int64("used", limit.Used), slog.Int64("limit", limit.Limit),
			slog.Float64("window_seconds", limit.Window.Seconds()))
	}
	if !v.Allowed && v.Decision.RetryAfter != penstock.Never {
		attrs = append(attrs, slog.Int64("retry_after_seconds", int64(math.Ceil(v.Decision.RetryAfter.Seconds()))))
	}
	if v.Quality != penstock.QualityExact {
		attrs = append(attrs, slog.String("quality", v.Quality.String()))
	}
	return attrs
}

// limitOf returns the limit that the verdict comes from.
func limitOf(v *penstock.Verdict) *penstock.LimitVerdict {
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Rule == v.Rule && !l.Shadow && l.Decision == v.Decision {
			return l
		}
	}
	return nil
}

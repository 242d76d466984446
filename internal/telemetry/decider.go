package telemetry

import (
	"context"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
)

// A Decider is an engine whose decisions are timed, and traced if somebody wants to know. On a busy
// node one in several is timed: to read the clock twice costs a good part of a decision in memory.
type Decider struct {
	*engine.Engine
	metrics *Metrics
	tracer  trace.Tracer // nil: nobody wants to know
}

// Decider returns the engine, timed. The tracer may be nil.
func (m *Metrics) Decider(e *engine.Engine, tracer trace.Tracer) *Decider {
	return &Decider{Engine: e, metrics: m, tracer: tracer}
}

// timedOf is how many decisions of a busy node one is timed of.
const timedOf = 8

// isUntimed picks the decisions of a busy node that are not timed.
func (d *Decider) isUntimed() bool {
	return d.tracer == nil && d.metrics.options.Traffic.Busy() && rand.Uint32N(timedOf) != 0
}

// Decide answers a call.
func (d *Decider) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	if d.isUntimed() {
		return d.Engine.Decide(ctx, c, v)
	}
	ctx, span := d.begin(ctx, "decide")
	began := time.Now()
	err := d.Engine.Decide(ctx, c, v)
	d.metrics.decided(time.Since(began))
	tellVerdict(span, v, err)
	return err
}

// DecideEach answers several calls. What each waited for is all of them.
func (d *Decider) DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	d.several(ctx, "decide each", len(calls), func(ctx context.Context) { d.Engine.DecideEach(ctx, calls, verdicts, errs) })
}

// DecideTogether answers calls that stand or fall together.
func (d *Decider) DecideTogether(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	d.several(ctx, "decide together", len(calls), func(ctx context.Context) { d.Engine.DecideTogether(ctx, calls, verdicts, errs) })
}

// DecideParts answers the parts of one request.
func (d *Decider) DecideParts(ctx context.Context, s *rules.Snapshot, parts []engine.Part) {
	if d.isUntimed() {
		d.Engine.DecideParts(ctx, s, parts)
		return
	}
	d.several(ctx, "decide parts", len(parts), func(ctx context.Context) { d.Engine.DecideParts(ctx, s, parts) })
}

func (d *Decider) several(ctx context.Context, name string, calls int, decide func(context.Context)) {
	ctx, span := d.begin(ctx, name)
	began := time.Now()
	decide(ctx)
	d.metrics.decided(time.Since(began))
	if span != nil {
		span.SetAttributes(attribute.Int("penstock.calls", calls))
		span.End()
	}
}

// Conclude ends or prolongs a reservation.
func (d *Decider) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	ctx, span := d.begin(ctx, c.Verb.String())
	err := d.Engine.Conclude(ctx, c, v)
	tellVerdict(span, v, err)
	return err
}

// begin begins a span, or returns nil if nobody wants to know.
func (d *Decider) begin(ctx context.Context, name string) (context.Context, trace.Span) {
	if d.tracer == nil {
		return ctx, nil
	}
	return d.tracer.Start(ctx, "penstock "+name)
}

// tellVerdict ends a span with what was decided. It names rules, never callers.
func tellVerdict(span trace.Span, v *penstock.Verdict, err error) {
	if span == nil {
		return
	}
	span.SetAttributes(
		attribute.Bool("penstock.allowed", v.Allowed), attribute.String("penstock.reason", v.Reason.String()),
		attribute.String("penstock.quality", v.Quality.String()), attribute.String("penstock.rule", v.Rule),
		attribute.Int64("penstock.rules_version", v.RulesVersion),
	)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "decided without the store, or not at all")
	}
	span.End()
}

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

// A Decider is an engine whose decisions are timed, and traced if tracing is on. On a busy node only one in several
// is timed, since reading the clock twice takes a good part of the time of a decision in memory.
type Decider struct {
	*engine.Engine
	metrics *Metrics
	tracer  trace.Tracer // nil: no tracing
}

// Decider returns the engine with timing. The tracer may be nil.
func (m *Metrics) Decider(e *engine.Engine, tracer trace.Tracer) *Decider {
	return &Decider{Engine: e, metrics: m, tracer: tracer}
}

// timedOf: a busy node times one in this many decisions.
const timedOf = 8

// isUntimed selects the decisions of a busy node that are not timed.
func (d *Decider) isUntimed() bool {
	return d.tracer == nil && d.metrics.options.Traffic.Busy() && rand.Uint32N(timedOf) != 0
}

// Decide decides a request.
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

// DecideEach decides several requests. Each is counted with the time that all of them took.
func (d *Decider) DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	d.decideSeveral(ctx, "decide each", len(calls), func(ctx context.Context) { d.Engine.DecideEach(ctx, calls, verdicts, errs) })
}

// DecideTogether decides requests that are charged atomically.
func (d *Decider) DecideTogether(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	d.decideSeveral(ctx, "decide together", len(calls), func(ctx context.Context) { d.Engine.DecideTogether(ctx, calls, verdicts, errs) })
}

// DecideParts decides the parts of one request.
func (d *Decider) DecideParts(ctx context.Context, s *rules.Snapshot, parts []engine.Part) {
	if d.isUntimed() {
		d.Engine.DecideParts(ctx, s, parts)
		return
	}
	d.decideSeveral(ctx, "decide parts", len(parts), func(ctx context.Context) { d.Engine.DecideParts(ctx, s, parts) })
}

func (d *Decider) decideSeveral(ctx context.Context, name string, calls int, decide func(context.Context)) {
	ctx, span := d.begin(ctx, name)
	began := time.Now()
	decide(ctx)
	d.metrics.decided(time.Since(began))
	if span != nil {
		span.SetAttributes(attribute.Int("penstock.calls", calls))
		span.End()
	}
}

// Conclude settles, releases or renews a reservation.
func (d *Decider) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	ctx, span := d.begin(ctx, c.Verb.String())
	err := d.Engine.Conclude(ctx, c, v)
	tellVerdict(span, v, err)
	return err
}

// begin begins a span, or returns nil without tracing.
func (d *Decider) begin(ctx context.Context, name string) (context.Context, trace.Span) {
	if d.tracer == nil {
		return ctx, nil
	}
	return d.tracer.Start(ctx, "penstock "+name)
}

// tellVerdict adds the verdict to a span and ends it. It names rules, never clients.
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

package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A StoreObserver times and traces what a circuit breaker sends to the store. It is a breaker.Observer.
type StoreObserver struct {
	metrics *Metrics
	tracer  trace.Tracer
}

// ObserveStore returns an observer. The tracer may be nil.
func (m *Metrics) ObserveStore(tracer trace.Tracer) *StoreObserver {
	return &StoreObserver{metrics: m, tracer: tracer}
}

// Begin starts a span, which the context carries.
func (o *StoreObserver) Begin(ctx context.Context, operation string) context.Context {
	if o.tracer == nil {
		return ctx
	}
	ctx, _ = o.tracer.Start(ctx, "penstock store "+operation, trace.WithSpanKind(trace.SpanKindClient))
	return ctx
}

// End counts the operation and ends its span.
func (o *StoreObserver) End(ctx context.Context, operation string, took time.Duration, err error) {
	o.metrics.answered(operation, took, err)
	if o.tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if failed(err) {
		span.RecordError(err)
		span.SetStatus(codes.Error, o.metrics.options.Cause(err))
	}
	span.End()
}

package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/storage"
)

// timed is a store whose calls are timed. It stands within the breaker: what was not sent took no time.
type timed struct {
	breaker.Store // operators' verbs are not timed
	metrics       *Metrics
	tracer        trace.Tracer
}

// TimeStore returns the store, timed. The tracer may be nil.
func (m *Metrics) TimeStore(s breaker.Store, tracer trace.Tracer) breaker.Store {
	return &timed{Store: s, metrics: m, tracer: tracer}
}

// Take decides a ticket.
func (s *timed) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	ctx, span := s.begin(ctx, "take")
	began := time.Now()
	err := s.Store.Take(ctx, t, out)
	s.end(span, "take", began, err)
	return err
}

// Settle ends or prolongs a reservation.
func (s *timed) Settle(ctx context.Context, what *storage.Settlement, out *storage.Settled) error {
	ctx, span := s.begin(ctx, "settle")
	began := time.Now()
	err := s.Store.Settle(ctx, what, out)
	s.end(span, "settle", began, err)
	return err
}

// ChargeLate charges requests that were admitted without the store.
func (s *timed) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	charger, ok := s.Store.(storage.LateCharger)
	if !ok {
		return fmt.Errorf("charge late: %w: %T cannot", penstock.ErrInvalid, s.Store)
	}
	ctx, span := s.begin(ctx, "charge_late")
	began := time.Now()
	err := charger.ChargeLate(ctx, c)
	s.end(span, "charge_late", began, err)
	return err
}

func (s *timed) begin(ctx context.Context, call string) (context.Context, trace.Span) {
	if s.tracer == nil {
		return ctx, nil
	}
	return s.tracer.Start(ctx, "penstock store "+call, trace.WithSpanKind(trace.SpanKindClient))
}

func (s *timed) end(span trace.Span, call string, began time.Time, err error) {
	s.metrics.answered(call, time.Since(began), err)
	if span == nil {
		return
	}
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, s.metrics.options.Cause(err))
	}
	span.End()
}

package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// A server implements Decisions.
type server struct {
	penstockv1.UnimplementedDecisionsServer
	Options
}

func (s *server) Check(ctx context.Context, r *penstockv1.CheckRequest) (*penstockv1.Verdict, error) {
	var m fieldViolations
	var c penstock.Call
	m.check(r, wire.MaxBody)
	m.call("", r, &c)
	return s.decide(ctx, &c, &m)
}

func (s *server) Reserve(ctx context.Context, r *penstockv1.ReserveRequest) (*penstockv1.Verdict, error) {
	var m fieldViolations
	c := penstock.Call{Reserve: true}
	m.check(r, wire.MaxBody)
	if r.Call == nil {
		m.add("call", "is missing")
	} else {
		m.call("call", r.Call, &c)
	}
	c.TTL = m.ttl("ttl_ms", r.TtlMs)
	return s.decide(ctx, &c, &m)
}

func (s *server) decide(ctx context.Context, c *penstock.Call, m *fieldViolations) (*penstockv1.Verdict, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	var v penstock.Verdict
	// Only an invalid request is an error here. After any other error the rules' failure policies have decided.
	if err := s.Decider.Decide(ctx, c, &v); errors.Is(err, penstock.ErrInvalid) {
		m.addErrors(err)
		return nil, m.err()
	}
	return verdictOf(&v), nil
}

func (s *server) CheckBatch(ctx context.Context, r *penstockv1.CheckBatchRequest) (*penstockv1.CheckBatchResponse, error) {
	var m fieldViolations
	calls := m.batch(r)
	if err := m.err(); err != nil {
		return nil, err
	}
	verdicts, errs := make([]penstock.Verdict, len(calls)), make([]error, len(calls))
	s.decideEach(ctx, calls, verdicts, errs)
	reply := &penstockv1.CheckBatchResponse{Results: make([]*penstockv1.Verdict, len(calls))}
	for i := range verdicts {
		reply.Results[i] = verdictOf(&verdicts[i])
		if errors.Is(errs[i], penstock.ErrInvalid) {
			reply.Results[i].Error = errs[i].Error()
		}
	}
	return reply, nil
}

func (s *server) decideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error) {
	if s.Batch != nil {
		s.Batch.DecideEach(ctx, calls, verdicts, errs)
		return
	}
	for i := range calls {
		errs[i] = s.Decider.Decide(ctx, &calls[i], &verdicts[i])
	}
}

func (s *server) Settle(ctx context.Context, r *penstockv1.SettleRequest) (*penstockv1.Verdict, error) {
	var m fieldViolations
	m.check(r, wire.MaxBody)
	c := penstock.Conclusion{Verb: penstock.Settle, Reservation: r.Reservation}
	switch {
	case (r.Cost == nil) == (r.Response == nil):
		m.add("cost", "set either cost or response")
	case r.Cost != nil:
		c.Cost = m.cost("cost", *r.Cost)
	default:
		c.Response = m.response("response", r.Response)
	}
	return s.conclude(ctx, &c, &m)
}

func (s *server) Renew(ctx context.Context, r *penstockv1.RenewRequest) (*penstockv1.Verdict, error) {
	var m fieldViolations
	m.check(r, wire.MaxBody)
	return s.conclude(ctx, &penstock.Conclusion{Verb: penstock.Renew, Reservation: r.Reservation, TTL: m.ttl("ttl_ms", r.TtlMs)}, &m)
}

func (s *server) Release(ctx context.Context, r *penstockv1.ReleaseRequest) (*penstockv1.Verdict, error) {
	var m fieldViolations
	m.check(r, wire.MaxBody)
	return s.conclude(ctx, &penstock.Conclusion{Verb: penstock.Release, Reservation: r.Reservation}, &m)
}

func (s *server) conclude(ctx context.Context, c *penstock.Conclusion, m *fieldViolations) (*penstockv1.Verdict, error) {
	if c.Reservation == "" {
		m.add("reservation", "is missing")
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	var v penstock.Verdict
	err := s.Concluder.Conclude(ctx, c, &v)
	if err == nil {
		return verdictOf(&v), nil
	}
	switch code := codeOf(err); code {
	case codes.Unavailable:
		// The error can name servers, so it is only logged.
		s.Log.ErrorContext(ctx, "reservation not concluded", "verb", c.Verb.String(), "error", err)
		return nil, status.Error(code, "the store did not respond; you can safely repeat the request, because it takes effect once")
	case codes.InvalidArgument:
		m.addErrors(err)
		return nil, m.err()
	default:
		return nil, status.Error(code, err.Error())
	}
}

// codeOf returns the code for a failed settlement, release or renewal. If rules return different errors, the one that
// a retry can fix counts.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, penstock.ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, penstock.ErrClosed):
		return codes.FailedPrecondition
	case errors.Is(err, penstock.ErrNoReservation):
		return codes.NotFound
	case errors.Is(err, penstock.ErrInvalid):
		return codes.InvalidArgument
	}
	return codes.Unavailable
}

// verdictOf converts a verdict.
func verdictOf(v *penstock.Verdict) *penstockv1.Verdict {
	out := &penstockv1.Verdict{
		Allowed: v.Allowed, Rule: v.Rule, Duplicate: v.Duplicate, RulesVersion: v.RulesVersion,
		Reservation: v.Reservation, OriginalReservation: v.OriginalReservation, ReservedForMs: milliseconds(v.ReservedFor),
		Reason:  penstockv1.Reason(v.Reason) + 1, // the names agree, as a test in proto/penstock/v1 checks
		Quality: penstockv1.Quality(v.Quality) + 1,
		Limit:   v.Decision.Limit, Remaining: v.Decision.Remaining,
		RetryAfterMs: unlessNever(v.Decision.RetryAfter), ResetAfterMs: unlessNever(v.Decision.ResetAfter), DelayMs: milliseconds(v.Delay),
		Limits: make([]*penstockv1.LimitVerdict, len(v.Limits)),
	}
	if v.BannedUntil != 0 {
		out.BannedForMs = unlessNever(max(0, v.BannedUntil.Sub(v.Now)))
	}
	for i := range v.Limits {
		l := &v.Limits[i]
		out.Limits[i] = &penstockv1.LimitVerdict{
			Rule: l.Rule, Policy: l.Policy, Algorithm: penstockv1.Algorithm(l.Algorithm), Shadow: l.Shadow, Banned: l.Banned,
			Allowed: l.Allowed, Limit: l.Limit, Count: l.Count, Refill: penstockv1.Refill(l.Refill), WindowMs: milliseconds(l.Window), Used: l.Used, Remaining: l.Remaining,
			RetryAfterMs: unlessNever(l.RetryAfter), ResetAfterMs: unlessNever(l.ResetAfter), DelayMs: milliseconds(l.Delay),
		}
	}
	return out
}

// milliseconds rounds up, so that a client that waits this long has waited long enough.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

func unlessNever(d time.Duration) *int64 {
	if d == penstock.Never {
		return nil
	}
	return new(milliseconds(d))
}

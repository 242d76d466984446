package grpcclient

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/internal/remote"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// checkRequest converts a call. Protobuf carries only UTF-8: invalid bytes become U+FFFD, as in JSON, because
// a request that could not be sent would not be limited.
func checkRequest(c *penstock.Call) (*penstockv1.CheckRequest, error) {
	attributes := make(map[string]string, len(c.Attributes))
	for i := range c.Attributes {
		name := text(c.Attributes[i].Name)
		if _, twice := attributes[name]; twice {
			return nil, fmt.Errorf("%w call: attribute %.32q is given twice", penstock.ErrInvalid, name)
		}
		attributes[name] = text(c.Attributes[i].Value)
	}
	return &penstockv1.CheckRequest{
		Domain: text(c.Domain), Attributes: attributes, Cost: &c.Cost, Id: text(c.ID),
		// A longer delay than the message can express is sent as the longest it can.
		MaxDelayMs: min(c.MaxDelay, wire.MaxDelay).Milliseconds(),
	}, nil
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func (c *Client) response(r *penstock.Response) *penstockv1.Response {
	out := &penstockv1.Response{Status: int32(r.Status), DurationMs: r.Duration.Milliseconds(), Bytes: r.Bytes, Headers: make(map[string]string, len(c.responseHeaders))}
	if r.Header == nil {
		return out
	}
	for _, name := range c.responseHeaders {
		if value := r.Header(name); value != "" {
			out.Headers[strings.ToLower(name)] = text(value)
		}
	}
	return out
}

// fill fills in the verdict from an answer.
func fill(v *penstock.Verdict, a *penstockv1.Verdict) error {
	v.Reset()
	if a.Reason == penstockv1.Reason_REASON_UNSPECIFIED || a.Quality == penstockv1.Quality_QUALITY_UNSPECIFIED {
		return fmt.Errorf("%w: invalid verdict: reason or quality is missing", remote.ErrUnavailable)
	}
	*v = penstock.Verdict{
		Allowed: a.Allowed, Rule: a.Rule, Duplicate: a.Duplicate, RulesVersion: a.RulesVersion,
		Reservation: a.Reservation, OriginalReservation: a.OriginalReservation, ReservedFor: fromMilliseconds(&a.ReservedForMs),
		Reason:  penstock.Reason(a.Reason - 1), // the names agree: a test of proto/penstock/v1
		Quality: penstock.Quality(a.Quality - 1),
		Delay:   fromMilliseconds(&a.DelayMs), Now: remote.Now(), Limits: v.Limits,
		Decision: penstock.Decision{
			Allowed: a.Allowed, Limit: a.Limit, Remaining: a.Remaining,
			RetryAfter: fromMilliseconds(a.RetryAfterMs), ResetAfter: fromMilliseconds(a.ResetAfterMs),
		},
	}
	if a.BannedForMs != nil {
		v.BannedUntil = v.Now.Add(fromMilliseconds(a.BannedForMs))
	}
	for _, l := range a.Limits {
		v.Limits = append(v.Limits, penstock.LimitVerdict{
			Rule: l.Rule, Policy: l.Policy, Shadow: l.Shadow, Banned: l.Banned,
			Algorithm: penstock.Algorithm(l.Algorithm), Refill: penstock.Refill(l.Refill), Count: l.Count, Window: fromMilliseconds(&l.WindowMs),
			Decision: penstock.Decision{
				Allowed: l.Allowed, Limit: l.Limit, Used: l.Used, Remaining: l.Remaining,
				RetryAfter: fromMilliseconds(l.RetryAfterMs), ResetAfter: fromMilliseconds(l.ResetAfterMs), Delay: fromMilliseconds(&l.DelayMs),
			},
		})
	}
	return nil
}

// fromMilliseconds converts nil to never, and caps what a duration cannot hold.
func fromMilliseconds(ms *int64) time.Duration {
	if ms == nil {
		return penstock.Never
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(0, min(*ms, most))) * time.Millisecond
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}

package rls

import (
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-io/penstock"
)

// response formats the answers for Envoy.
func (s *Server) response(r *rlsv3.RateLimitRequest, a *Answers) *rlsv3.RateLimitResponse {
	v := combine(a)
	out := &rlsv3.RateLimitResponse{
		OverallCode:     codeOf(a.Allowed),
		Statuses:        make([]*rlsv3.RateLimitResponse_DescriptorStatus, len(a.Each)),
		DynamicMetadata: s.metadata(r, a, v),
	}
	for i := range a.Each {
		out.Statuses[i] = statusOf(&a.Each[i])
	}
	var told reply
	if a.Allowed {
		s.Writer.Headers(told.Header(), v)
	} else {
		s.deny(&told, anyRequest, v)
		out.RawBody = told.body.Bytes()
		if s.NoDenialHeaders {
			keepLimits(told.header)
		}
	}
	out.ResponseHeadersToAdd = eachHeader(&told, func(name, value string) *corev3.HeaderValue {
		return &corev3.HeaderValue{Key: name, Value: value}
	})
	if s.LimitHeaders != nil {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, s.LimitHeaders.of(a, out.Statuses)...)
	}
	return out
}

func codeOf(allowed bool) rlsv3.RateLimitResponse_Code {
	if allowed {
		return rlsv3.RateLimitResponse_OK
	}
	return rlsv3.RateLimitResponse_OVER_LIMIT
}

// statusOf returns the status of one descriptor. Without a limit, Envoy leaves it out of its headers.
func statusOf(a *Answer) *rlsv3.RateLimitResponse_DescriptorStatus {
	status := &rlsv3.RateLimitResponse_DescriptorStatus{Code: codeOf(a.Verdict.Allowed)}
	if a.Unlimited {
		status.LimitRemaining = math.MaxUint32
	}
	l := a.Told
	if l == nil {
		return status
	}
	status.CurrentLimit = &rlsv3.RateLimitResponse_RateLimit{Name: a.Name, RequestsPerUnit: clamp(l.Limit), Unit: unitOf(l)}
	status.LimitRemaining = clamp(l.Remaining)
	if reset := resetOf(l); reset != penstock.Never {
		status.DurationUntilReset = durationpb.New(wholeSeconds(reset)) // Envoy shows whole seconds only
	}
	return status
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// unitOf returns UNKNOWN for a window that is not one of Envoy's units, and for a bucket whose capacity differs from
// what it regains per window: Envoy would put both numbers into one policy.
func unitOf(l *penstock.LimitVerdict) rlsv3.RateLimitResponse_RateLimit_Unit {
	if l.Limit != l.Count || l.Algorithm == penstock.Concurrency {
		return rlsv3.RateLimitResponse_RateLimit_UNKNOWN
	}
	return unitsOf[l.Window]
}

// resetOf returns when a denied request may be retried or, for an allowed one, when the client's state is back to
// empty.
func resetOf(l *penstock.LimitVerdict) time.Duration {
	if !l.Allowed && l.RetryAfter != penstock.Never {
		return l.RetryAfter
	}
	return l.ResetAfter
}

func wholeSeconds(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		return d - rest + time.Second
	}
	return d
}

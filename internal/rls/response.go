package rls

import (
	"math"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock"
)

// respond encodes the answers for Envoy, as a RateLimitResponse. The message is nil if the request was plain.
func (s *Server) respond(e *encoder, r *rlsv3.RateLimitRequest, a *Answers) {
	v := combine(a)
	e.addNumber(overallCode, uint64(codeOf(a.Allowed)))
	for i := range a.Each {
		status := statusOf(&a.Each[i])
		e.addStatus(&status)
	}
	if a.Allowed {
		s.Writer.Headers(e.Header(), v)
	} else {
		s.deny(e, v)
	}
	if !e.whole {
		e.addReply()
	}
	if s.LimitHeaders != nil {
		s.LimitHeaders.add(e, a)
	}
	switch isUsual := !s.RequestMetadata && (s.NoMetadata || isUsual(a)); {
	case isUsual && (s.NoMetadata || a.Allowed):
	case isUsual:
		e.addDenial(v.Rule, v.Reason.String())
	default:
		if m := s.metadata(r, a, v); m != nil {
			e.addMetadata(m)
		}
	}
}

// deny writes a denial.
func (s *Server) deny(e *encoder, v *penstock.Verdict) {
	if s.DenialBody == ProblemBody && !s.NoDenialHeaders {
		s.Writer.Deny(e, anyRequest, v)
		return
	}
	s.denyWith(&e.reply, anyRequest, v)
	if s.NoDenialHeaders {
		keepLimits(e.header)
	}
}

func codeOf(allowed bool) rlsv3.RateLimitResponse_Code {
	if allowed {
		return rlsv3.RateLimitResponse_OK
	}
	return rlsv3.RateLimitResponse_OVER_LIMIT
}

// A descriptorStatus is the status of one descriptor, as in a RateLimitResponse. Without a limit, Envoy leaves it out
// of its headers.
type descriptorStatus struct {
	code rlsv3.RateLimitResponse_Code

	limited bool // by this limit
	name    string
	limit   uint32
	unit    rlsv3.RateLimitResponse_RateLimit_Unit

	remaining uint32
	resets    bool
	reset     int64 // seconds
}

func statusOf(a *Answer) descriptorStatus {
	status := descriptorStatus{code: codeOf(a.Verdict.Allowed)}
	if a.Unlimited {
		status.remaining = math.MaxUint32
	}
	l := a.Told
	if l == nil {
		return status
	}
	status.limited, status.name, status.limit, status.unit = true, a.Name, clamp(l.Limit), unitOf(l)
	status.remaining = clamp(l.Remaining)
	if reset := resetOf(l); reset != penstock.Never {
		status.resets, status.reset = true, int64(wholeSeconds(reset)/time.Second) // Envoy shows whole seconds only
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

package rls

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Names of the services, in metrics and logs.
const (
	rateLimit     = "ratelimit"
	authorization = "authorization"
)

// logInterval is how often invalid requests of a service are logged. Clients can cause many.
const logInterval = 10 * time.Second

// invalidRequests counts requests to one service that were refused as a whole or in part.
type invalidRequests struct {
	count  atomic.Int64
	logged atomic.Int64 // when, as Unix nanoseconds
}

// InvalidRequests returns how many requests, of each service, were refused as a whole or in part because
// they are invalid.
func (s *Server) InvalidRequests() map[string]int64 {
	return map[string]int64{rateLimit: s.invalidLimits.count.Load(), authorization: s.invalidChecks.count.Load()}
}

// add counts a request, and logs it unless another one was logged a moment ago.
func (i *invalidRequests) add(ctx context.Context, s *Server, service string, err error) {
	count, now, before := i.count.Add(1), time.Now().UnixNano(), i.logged.Load()
	if now-before < int64(logInterval) || !i.logged.CompareAndSwap(before, now) {
		return
	}
	s.Log.WarnContext(ctx, "invalid request from Envoy", "service", service, "error", fmt.Sprintf("%.512s", err), "total", count)
}

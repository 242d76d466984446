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

// logInterval is the shortest time between two log lines about invalid requests of a service. Clients can cause many.
const logInterval = 10 * time.Second

// invalidRequests counts requests to one service that were refused entirely or in part.
type invalidRequests struct {
	count  atomic.Int64
	logged atomic.Int64 // when the last line was logged, in Unix nanoseconds
}

// InvalidRequests returns, for each service, how many requests were refused entirely or in part because they were
// invalid.
func (s *Server) InvalidRequests() map[string]int64 {
	return map[string]int64{rateLimit: s.invalidLimits.count.Load(), authorization: s.invalidChecks.count.Load()}
}

// add counts a request, and logs it unless another one was logged within logInterval.
func (i *invalidRequests) add(ctx context.Context, s *Server, service string, err error) {
	count, now, before := i.count.Add(1), time.Now().UnixNano(), i.logged.Load()
	if now-before < int64(logInterval) || !i.logged.CompareAndSwap(before, now) {
		return
	}
	s.Log.WarnContext(ctx, "invalid request from Envoy", "service", service, "error", fmt.Sprintf("%.512s", err), "total", count)
}

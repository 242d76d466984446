package server

import (
	"cmp"
	"context"
	"time"

	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/memstore"
)

// store is where counters are.
type store struct {
	*storestack.Stack
	nodes func() int // number of nodes that share the limits
}

func (s *Server) openStore(context.Context) error {
	o := storestack.Options{
		Memory: memstore.Options{MaxBytes: int64(s.config.Store.Memory.MaxBytes)}, Log: s.log, Watch: s.intervals.watch,
		Observer: s.metrics.ObserveStore(s.tracer()), Changed: s.circuitChanged,
	}
	if s.config.HasRedis() {
		redis, err := s.config.Store.Redis.Options()
		if err != nil {
			return err
		}
		o.Redis = &redis
	}
	opened, err := storestack.Open(o)
	if err != nil {
		return err
	}
	s.atEnd(opened.Close)
	s.store = &store{opened, func() int { return max(1, s.config.Nodes) }}
	return nil
}

// parting is how long a stopping node may take to return its leases, which expire otherwise, and to report to
// Redis the admissions and releases that it does not know.
const parting = time.Second

// returnPermits returns the unused quota of leases. It does so before the requests in flight have ended, because
// the leases would expire by then. The store decides the remaining requests.
func (s *Server) returnPermits() {
	if s.store.Leases == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	err := s.store.Leases.Return(ctx, 0)
	stats := s.store.Leases.Stats()
	log := s.log.With("taken", stats.Permits, "expired", stats.Expired, "returned", stats.Returned)
	switch {
	case err != nil:
		log.Warn("cannot return leases", "error", err)
	case stats.Permits > 0:
		log.Info("leases returned")
	}
}

// isConnected reports whether the shared store decides. Unlike status it reads nothing that joining the nodes sets.
func (s *store) isConnected() bool {
	return s.Redis == nil || s.Breaker.Stats().State == breaker.Closed
}

// status returns the state of the store.
func (s *store) status() admin.StoreStatus {
	shared := s.Memory.Stats().Shared
	if s.Redis == nil {
		return admin.StoreStatus{Kind: "memory", Connected: true, Nodes: s.nodes(), SharedCounters: shared}
	}
	now := s.Breaker.Stats()
	found := admin.StoreStatus{
		Kind: "redis", Connected: now.State == breaker.Closed, Nodes: s.nodes(), SharedCounters: shared,
		Breaker: &admin.BreakerStatus{State: now.State.String(), Since: now.Since, Opened: now.Opened, Refused: now.Refused},
	}
	if lost := s.Losses(); lost.Times > 0 {
		found.Losses = &admin.LossStatus{Times: lost.Times, Last: lost.Last}
	}
	if !found.Connected {
		found.Error = cmp.Or(s.Problem(), now.Cause).Error()
	}
	return found
}

package server

import (
	"fmt"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/memstore"
)

// openPerSecond returns the engine for limits per second in a separate Redis, or nil if there is none. Its
// counters end within a second, so operators do not need to manage them.
func (s *Server) openPerSecond() (envoyratelimit.Engine, error) {
	r := &s.config.Store.RedisPerSecond
	if len(r.Addresses) == 0 {
		return nil, nil
	}
	redis, err := r.Options()
	if err != nil {
		return nil, fmt.Errorf("store.redis_per_second: %w", err)
	}
	const part = 8 // fraction of store.memory
	stack, err := storestack.Open(storestack.Options{
		Redis: &redis, Log: s.log.With("store", "redis_per_second"),
		Memory:   memstore.Options{MaxBytes: max(int64(s.config.Store.Memory.MaxBytes)/part, 8<<20)},
		Observer: s.metrics.ObserveStore(s.tracer()),
	})
	if err != nil {
		return nil, err
	}
	s.atEnd(stack.Close)
	decides, err := engine.New(engine.Options{
		Store: stack.Shared, Local: stack.Local, Nodes: s.store.nodes, Rules: s.rules.live, Blocks: s.blocks.List(), Observe: s.observe, Failed: s.failed, Refunds: s.config.Envoy.NegativeHits,
	})
	if err != nil {
		return nil, err
	}
	s.perSecond = stack
	s.atEnd(func() { s.closeEngine(decides) })
	return s.metrics.Decider(decides, s.tracer()), nil
}

// newStats returns the metrics of envoyproxy/ratelimit, or nil if they are off.
func (s *Server) newStats() *envoyratelimit.Stats {
	m := &s.config.Metrics
	if m.Compat != "envoy_ratelimit" {
		return nil
	}
	s.stats = envoyratelimit.NewStats(envoyratelimit.StatsOptions{NearLimit: float32(m.NearLimit), Cached: m.Cached, MaxSeries: m.MaxSeries})
	return s.stats
}

// rateLimitState returns the state for metrics of envoyproxy/ratelimit, or nil if they are off.
func (s *Server) rateLimitState() *telemetry.RateLimit {
	if s.stats == nil {
		return nil
	}
	return &telemetry.RateLimit{
		Stats:  s.stats,
		Loaded: s.filesLoaded.Load(), NotLoaded: s.rules.live.Status().Refusals, Shadowed: s.envoy.Shadowed(),
		Errors: map[string]int64{"service_error": s.envoy.InvalidRequests()["ratelimit"], "redis_error": s.envoy.Undecided()},
	}
}

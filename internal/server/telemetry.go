package server

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/redisstore"
)

// lastSpans is how long a shutdown waits for traces to be sent.
const lastSpans = 2 * time.Second

// openTelemetry sets up traffic statistics, tracing and metrics.
func (s *Server) openTelemetry(ctx context.Context) (err error) {
	s.bodies = newBodyWarnings(s.log)
	s.traffic = traffic.New()
	s.atEnd(s.traffic.Close)
	if s.tracing, err = telemetry.NewTracing(ctx, s.build.Version); err != nil {
		return err
	}
	if s.tracing != nil {
		s.atEnd(func() {
			ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
			defer cancel()
			if err := s.tracing.Close(ctx); err != nil {
				s.log.Warn("cannot export the last traces", "error", err)
			}
		})
	}
	s.metrics, err = telemetry.New(telemetry.Options{
		Traffic: s.traffic, State: s.state, Version: s.build.Version, GoVersion: s.build.Go,
		Cause: func(err error) string { return string(redisstore.KindOf(err)) },
	})
	return err
}

// tracer returns nil if tracing is off.
func (s *Server) tracer() trace.Tracer {
	if s.tracing == nil {
		return nil
	}
	return s.tracing.Tracer
}

// state returns the state of the server that metrics report in addition to requests.
func (s *Server) state() (found telemetry.State) {
	found.Ready, found.Nodes, found.Blocks = s.ready() == nil, s.store.nodes(), len(s.blocks.InForce())
	live := s.rules.live.Status()
	found.Rules.Count, found.Rules.Version = len(s.rules.live.Load().Rules), live.Version
	found.Rules.Checked, found.Rules.Refused = live.Looked, live.Refused != nil
	found.Rules.Refusals = live.Refusals
	if s.rules.entitlements != nil {
		found.Entitlements = new(s.rules.entitlements.Status())
	}
	if s.refusedLogins != nil {
		found.RefusedLogins = s.refusedLogins()
	}
	if s.envoy != nil {
		found.InvalidRequests = s.envoy.InvalidRequests()
		found.RateLimit = s.rateLimitState()
	}
	found.Certificates = s.certificateStates()
	found.BodyWarnings = s.bodies.totals()
	if s.held != nil {
		found.Held = new(s.held())
	}
	memory := s.store.Memory.Stats()
	found.Memory = &telemetry.Memory{Keys: memory.Keys, Shared: memory.Shared, Bytes: memory.Bytes, Evicted: memory.Evicted, Refused: memory.Refused}
	if s.store.Redis == nil {
		return found
	}
	broken, redis, conclusions := s.store.Breaker.Stats(), s.store.Redis.Stats(), s.engine.Load().Stats()
	found.Store = &telemetry.Store{
		Up: broken.State == breaker.Closed, Refused: broken.Refused, Opened: broken.Opened,
		RoundTrips: redis.Runs, NoScript: redis.NoScript,
		Unconfirmed: conclusions.Unconfirmed, Dropped: conclusions.Dropped, Cancelled: conclusions.Cancelled, Losses: s.store.Losses().Times,
	}
	found.Denied, found.Leases, found.Late = new(s.store.Denied.Stats()), new(s.store.Leases.Stats()), new(s.engine.Load().LateStats())
	return found
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/health"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/decisionlog"
	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/gateway"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/readiness"
	"github.com/penstock-io/penstock/internal/replaylog"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// A Server is the assembled parts of a node: a store and rules, the engine that decides by them, and the
// listeners where requests arrive.
type Server struct {
	config  *config.Config
	log     *slog.Logger
	build   admin.Build
	started time.Time

	intervals intervals

	store     *store
	perSecond *storestack.Stack                          // for limits per second; nil: store has them
	observe   func(*engine.Observation)                  // sees every decision
	failed    func(*rules.Snapshot, *engine.RuleFailure) // sees rules that failed when a response was reported
	rules     *ruleSource
	blocks    *blocks.Set                                   // keys that operators have blocked
	members   *membership.Members                           // the nodes that share the limits
	engine    atomic.Pointer[engine.Engine]                 // atomic, because membership reports start before it is set
	decider   *telemetry.Decider                            // the engine, with timing
	claims    func(*http.Request) (httplimit.Claims, error) // nil: tokens are not read
	gateway   *gateway.Gateway                              // nil: off
	bodies    *bodyWarnings
	held      func() httplimit.HeldStats // at the gateway; nil: it is off
	demo      *demoTraffic               // nil: not a demo
	health    *health.Server
	envoy     *rls.Server
	stats     *envoyratelimit.Stats // nil: metrics of envoyproxy/ratelimit are not wanted

	filesLoaded atomic.Int64 // how often rules were loaded
	circuitOpen atomic.Bool  // the circuit breaker has opened and not closed again

	traffic *traffic.Traffic
	fleet   *fleet.Fleet // the traffic of all nodes
	history *trafficdb.Recorder
	metrics *telemetry.Metrics
	tracing *telemetry.Tracing // nil: tracing is off

	tls map[string]*listener.Certificates // by listener

	listeners map[string]net.Listener // by name

	endpoints []*endpoint // for requests
	operating []*endpoint // for health, metrics and admin, as far as they are on; open until the others are closed
	token     string      // of the admin API
	newToken  bool        // it was generated at this start
	streams   func()      // ends the streams of the admin API

	refusedLogins func() map[string]int64 // of the admin API; nil: it is off

	demoUpstream bool       // it is the gateway's only upstream
	demoSource   netip.Addr // of demo traffic; zero: any

	draining atomic.Bool

	ballast []byte

	ends []func() // functions that Close runs, the last first
}

// Options configure a server.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	Build  admin.Build // version of the program

	intervals intervals
}

// intervals are the times between two runs of background work. Zero is the default; tests shorten them.
type intervals struct {
	heartbeat time.Duration // exchange of node information
	watch     time.Duration // probes of a working Redis
}

// ballast is never touched, so it takes no memory. But it counts as live, so the garbage collector waits until as
// much garbage has accumulated. Otherwise, on a node with little data, it would mark the few megabytes that are
// linked in many times a second. On a node with much data it makes no difference.
const ballast = 32 << 20

// New returns a server that listens but does not answer yet. The context bounds the start.
func New(ctx context.Context, o Options) (_ *Server, err error) {
	s := &Server{config: o.Config, log: o.Log, build: o.Build, started: time.Now(), intervals: o.intervals, health: health.NewServer(), ballast: make([]byte, ballast)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, step := range []func(context.Context) error{s.openTelemetry, s.openStore, s.openRules, s.openBlocks, s.joinNodes, s.openHistory, s.openFleet, s.openEngine, s.openTokens, s.openEnvoy, s.awaitStore, s.openListeners, s.openEndpoints, s.openDemo, s.openProbes, s.openMetrics, s.openAdmin} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) openEngine(context.Context) error {
	keyPrefix := ""
	if s.config.HasRedis() {
		keyPrefix = s.config.Store.Redis.KeyPrefix
	}
	decisions, err := decisionlog.New(decisionlog.Options{
		Log: s.log, Mode: decisionlog.Mode(s.config.Log.Decisions), KeyPrefix: keyPrefix,
		Cause: func(err error) string { return string(redisstore.KindOf(err)) },
	})
	if err != nil {
		return err
	}
	s.atEnd(decisions.Close)
	s.observe = func(o *engine.Observation) {
		decisions.Observe(o)
		s.traffic.Observe(o)
	}
	s.failed = func(r *rules.Snapshot, f *engine.RuleFailure) {
		decisions.RuleFailed(f)
		s.traffic.RuleFailed(r, f.Rule)
	}
	if err := s.openReplayLog(); err != nil {
		return err
	}
	decides, err := engine.New(engine.Options{
		Store: s.store.Shared, Local: s.store.Local, Nodes: s.store.nodes, Rules: s.rules.live, Entitlements: s.rules.table(), Blocks: s.blocks.List(),
		Refunds: s.config.Envoy.NegativeHits, Observe: s.observe, Failed: s.failed,
	})
	if err != nil {
		return err
	}
	s.engine.Store(decides)
	s.atEnd(func() { s.closeEngine(decides) })
	s.decider = s.metrics.Decider(decides, s.tracer())
	return nil
}

// openReplayLog opens the file to which every decision is written, if it is configured.
func (s *Server) openReplayLog() error {
	if s.config.Log.Replay == "" {
		return nil
	}
	replay, err := replaylog.Open(s.config.Log.Replay, int64(s.config.Log.ReplayMaxBytes), s.log)
	if err != nil {
		return fmt.Errorf("log.replay: %w", err)
	}
	s.atEnd(replay.Close)
	observe := s.observe
	s.observe = func(o *engine.Observation) {
		observe(o)
		replay.Observe(o)
	}
	return nil
}

// closeEngine reports to Redis what it does not know yet: requests that were allowed without it, and releases and
// settlements that it did not confirm.
func (s *Server) closeEngine(decides *engine.Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	if err := decides.Close(ctx); err != nil {
		s.log.Warn("stopped with charges or releases that were not sent to Redis", "error", err)
	}
}

// atEnd adds a function for Close to run.
func (s *Server) atEnd(end func()) { s.ends = append(s.ends, end) }

// Run answers requests until the context ends, and for the drain delay after that. Then it waits for requests in
// flight. It fails if one of the listeners does.
func (s *Server) Run(ctx context.Context) error {
	if s.demo != nil && s.config.Traffic {
		s.demo.Turn(true)
	}
	all, ctx := errgroup.WithContext(ctx)
	calls, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	lights, out := context.WithCancel(context.WithoutCancel(ctx))
	defer out()

	var serving sync.WaitGroup
	for _, d := range s.endpoints {
		serving.Add(1)
		all.Go(func() error {
			defer serving.Done()
			return d.run(calls)
		})
	}
	for _, d := range s.operating {
		all.Go(func() error { return d.run(lights) })
	}
	all.Go(func() error {
		serving.Wait()
		out()
		return nil
	})
	all.Go(func() error {
		<-ctx.Done()
		s.draining.Store(true) // so that load balancers send no more
		s.health.Shutdown()
		time.Sleep(s.config.Gateway.Timeouts.DrainDelay) // requests from balancers that have not noticed yet are still served
		if s.demo != nil {
			s.demo.Turn(false)
		}
		if s.streams != nil {
			s.streams()
		}
		drain()
		s.returnPermits()
		return nil
	})
	return all.Wait()
}

// Close releases the server's resources. Run must have returned, or never been called.
func (s *Server) Close() {
	for _, end := range slices.Backward(s.ends) {
		end()
	}
	s.ends = nil
}

// readiness returns the answer of /readyz.
func (s *Server) readiness() readiness.State {
	return readiness.State{NotReady: s.ready(), Degraded: !s.store.status().Connected}
}

// ready returns nil if requests should be sent here, or else why not.
func (s *Server) ready() error {
	if s.draining.Load() {
		return errors.New("stopping")
	}
	for _, stack := range s.stacks() {
		select {
		case <-stack.Settled:
		default:
			return errors.New("the store has not answered yet")
		}
	}
	return nil
}

// awaitStore waits, before ports open, until Redis has answered or the attempt has failed. Proxies without health
// checks, and some orchestrators, take an open port for a node that can decide: what it decided without Redis would
// come on top of what other nodes have admitted.
func (s *Server) awaitStore(ctx context.Context) error {
	for _, stack := range s.stacks() {
		select {
		case <-stack.Settled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// stacks returns where counters live.
func (s *Server) stacks() []*storestack.Stack {
	if s.perSecond == nil {
		return []*storestack.Stack{s.store.Stack}
	}
	return []*storestack.Stack{s.store.Stack, s.perSecond}
}

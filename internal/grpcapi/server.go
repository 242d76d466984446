package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/wire"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// Options configure the server.
type Options struct {
	Decider   penstock.Decider
	Concluder penstock.Concluder
	Batch     BatchDecider // nil: the requests of a batch are decided one after another

	// Health is the health service to register; nil: one that always reports serving. Code that drains the server
	// must update it first.
	Health *health.Server
	Log    *slog.Logger // nil: nothing is logged

	MaxDuration time.Duration // of a request, from its first byte to the response; default 30 s

	// MaxConnectionAge is how long a connection serves before its client is told to open another one, so that clients
	// spread over added nodes; 0: unlimited.
	MaxConnectionAge time.Duration
}

// A BatchDecider decides many requests independently. There are as many verdicts and errors as requests.
type BatchDecider interface {
	DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error)
}

// streamWorkers is the number of goroutines that serve requests one after another, so that their stacks do not have to
// grow for each. While all of them are busy, requests get their own.
const streamWorkers = 256

// NewServer returns a server with the decision API and the health service. Its limits keep one client from exhausting
// it. Further services can be registered before it serves. Its listener should be a connlimit.HTTP2Listener, which
// bounds the memory of partly received requests.
func NewServer(o Options, more ...grpc.ServerOption) (*grpc.Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	decoder := newDecoder()
	s := grpc.NewServer(append([]grpc.ServerOption{
		grpc.MaxRecvMsgSize(wire.MaxBatchBody), // other requests have a lower bound: see check
		grpc.MaxHeaderListSize(16 << 10),
		grpc.MaxConcurrentStreams(100),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.Creds(newConnCredentials()),
		grpc.InTapHandle(gate{cmp.Or(o.MaxDuration, 30*time.Second)}.enter),
		grpc.ForceServerCodecV2(decoder),
		//lint:ignore SA1019 nothing else refuses compressed messages before they are decompressed
		grpc.RPCDecompressor(identityOnly{}),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle:     15 * time.Minute,
			MaxConnectionAge:      o.MaxConnectionAge,
			MaxConnectionAgeGrace: time.Minute,
			Time:                  time.Minute,
			Timeout:               20 * time.Second,
		}),
		grpc.ChainUnaryInterceptor(decoder.unary(o.Log)),
		grpc.ChainStreamInterceptor(decoder.stream),
	}, more...)...)
	if err := Register(s, o); err != nil {
		return nil, err
	}
	if o.Health == nil {
		o.Health = health.NewServer()
	}
	o.Health.SetServingStatus(penstockv1.Decisions_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, o.Health)
	return s, nil
}

// Register adds the decision API to a server, whose own limit on messages must be at least that of a batch, 1 MiB.
func Register(s *grpc.Server, o Options) error {
	if o.Decider == nil || o.Concluder == nil {
		return errors.New("serve decisions over gRPC: it needs a decider and a concluder")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	penstockv1.RegisterDecisionsServer(s, &server{Options: o})
	return nil
}

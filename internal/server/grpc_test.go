package server

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/stats"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/penstock-io/penstock/internal/nodetest"
)

// connections counts those that a client opens.
type connections struct{ opened atomic.Int64 }

func (c *connections) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.opened.Add(1)
	}
}
func (*connections) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*connections) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*connections) HandleRPC(context.Context, stats.RPCStats)                         {}

// Clients reconnect after some time, without an error.
func TestConnectionAge(t *testing.T) {
	t.Parallel()
	n := startNode(t, "grpc: {max_connection_age: 50ms}")
	var seen connections
	conn, err := grpc.NewClient(n.endpoint("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(&seen))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	nodetest.Eventually(t, "the client has opened three connections", func() bool {
		if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
			t.Fatal(err)
		}
		return seen.opened.Load() >= 3
	})
}

// Reflection is off unless the operator enables it.
func TestReflection(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]codes.Code{"": codes.Unimplemented, "grpc: {reflection: true}": codes.OK} {
		n := startNode(t, config)
		conn, err := grpc.NewClient(n.endpoint("grpc").listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}) // Recv says why not
		if _, err := stream.Recv(); grpcstatus.Code(err) != want {
			t.Errorf("%q: got %v, want %v", config, err, want)
		}
	}
}

package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-io/penstock/internal/grpcapi"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
)

// A request that is not received completely ends with the server's deadline, whatever the client's is.
// Who watches the health has none.
func TestDeadline(t *testing.T) {
	e, states := newEngine(t, nil), health.NewServer()
	conn := serve(t, grpcapi.Options{Decider: e, Concluder: e, Health: states, MaxDuration: 100 * time.Millisecond})
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(patient(t), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatal(r, err)
	}
	for range 3 {
		unfinished, err := conn.NewStream(patient(t), &grpc.StreamDesc{ClientStreams: true}, penstockv1.Decisions_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, unfinished.RecvMsg(new(penstockv1.Verdict)), codes.DeadlineExceeded)
	}
	states.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if r, err := watch.Recv(); err != nil || r.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Error(r, err)
	}
}

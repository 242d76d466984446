package grpclimit_test

import (
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
)

const failedCalls = `
rules:
  - {name: unary, match: {path: /grpc.testing.TestService/UnaryCall}, key: [], limits: [{rate: 5/1h, algorithm: fixed_window}], charge_if: 'status in [401, 403]'}
  - {name: streams, match: {path: /grpc.testing.TestService/FullDuplexCall}, key: [], limits: [{rate: 5/1h, algorithm: fixed_window}], refund_if: 'status >= 500 || header("grpc-status") == "9" || header("x-cost") == "0"'}
`

// The status of a gRPC response decides as the corresponding status of HTTP does.
func TestOutcomes(t *testing.T) {
	e := newEngine(t, failedCalls, engine.Options{Now: noon})
	client, service := serve(t, newLimiter(t, e, grpclimit.Options{}))
	for _, c := range []struct {
		body string
		code codes.Code
		used int64
	}{
		{"hello", codes.OK, 0}, {"fail UNAUTHENTICATED", codes.Unauthenticated, 1}, {"fail NOT_FOUND", codes.NotFound, 1},
		{"fail PERMISSION_DENIED", codes.PermissionDenied, 2}, {"fail INTERNAL", codes.Internal, 2}, {"hello", codes.OK, 2},
	} {
		_, err := client.UnaryCall(patient(t), say(c.body))
		wantCode(t, err, c.code)
		wantUsed(t, e, unaryCall, c.used)
	}
	used := int64(0)
	for _, c := range []struct {
		body string
		code codes.Code
		cost int64
	}{
		{"fail UNAVAILABLE", codes.Unavailable, 0}, {"fail NOT_FOUND", codes.NotFound, 1}, {"fail FAILED_PRECONDITION", codes.FailedPrecondition, 0},
	} {
		stream := open(t, client)
		exchange(t, stream, "hello")
		if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: []byte(c.body)}}); err != nil {
			t.Fatal(err)
		}
		_, err := stream.Recv()
		wantCode(t, err, c.code)
		used += c.cost
		wantUsed(t, e, duplexCall, used)
	}
	service.reached.Store(0)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() { _, _ = client.UnaryCall(patient(t), say("fail UNAUTHENTICATED")) })
	}
	all.Wait()
	if n := service.reached.Load(); n != 3 {
		t.Errorf("%d wrong calls reached the service, want 3", n)
	}
}

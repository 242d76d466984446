package grpclimit_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/internal/grpcapi"
)

// patientClient ignores the deadline of conclusions: the few seconds that a limiter gives them may pass on a busy
// machine.
type patientClient struct{ *grpcclient.Client }

func (u patientClient) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	return u.Client.Conclude(context.WithoutCancel(ctx), c, v)
}

// A limiter that asks a remote service behaves the same: permits are released, and costs come with the
// answer.
func TestRemote(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: told, match: {path: /grpc.testing.TestService/UnaryCall}, key: [], cost: {response_header: X-Cost, default: 1, max: 50}, limits: [{rate: 40/1m, algorithm: fixed_window}]}
  - {name: one, match: {path: /grpc.testing.TestService/FullDuplexCall}, key: [], limits: [{concurrent: 1, ttl: 1h}]}
`, engine.Options{Now: noon})
	server, err := grpcapi.NewServer(grpcapi.Options{Decider: e, Concluder: e}, grpc.ConnectionTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		<-served
	}()
	remote, err := grpcclient.New(listener.Addr().String(), grpcclient.Options{
		Timeout: patience, ResponseHeaders: []string{"X-Cost"},
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: patience}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	client, _ := serve(t, newLimiter(t, patientClient{remote}, grpclimit.Options{OnError: func(_ string, err error) { t.Error(err) }}))

	for _, test := range []struct {
		body string
		want codes.Code
	}{{"set 35", codes.OK}, {"set 5", codes.OK}, {"hello", codes.ResourceExhausted}} {
		_, err := client.UnaryCall(patient(t), say(test.body))
		wantCode(t, err, test.want)
	}
	for range 3 {
		stream := open(t, client)
		exchange(t, stream, "hello")
		_, err := open(t, client).Recv()
		wantCode(t, err, codes.ResourceExhausted)
		hangUp(t, stream)
	}
}

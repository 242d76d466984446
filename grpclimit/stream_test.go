package grpclimit_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
)

// A stream is one request, however many messages it has.
func TestStreams(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: streams, match: {path: /grpc.testing.TestService/FullDuplexCall}, key: [ip], limits: [{rate: 2/1m, algorithm: fixed_window}]}
`, engine.Options{Now: noon})
	client, service := serve(t, newLimiter(t, e, grpclimit.Options{}))
	for i := range 2 {
		stream := open(t, client)
		for range 3 {
			exchange(t, stream, "hello")
		}
		header, err := stream.Header()
		if err != nil {
			t.Fatal(err)
		}
		wantMetadata(t, header, "ratelimit", `"streams";r=`+string(rune('1'-i))+`;t=60`)
		hangUp(t, stream)
	}
	stream := open(t, client)
	_, err := stream.Recv()
	wantCode(t, err, codes.ResourceExhausted)
	wantDetails(t, err, time.Minute, "streams", 2)
	if n := service.reached.Load(); n != 2 {
		t.Errorf("%d streams reached the service, want 2", n)
	}
}

func open(t *testing.T, client testpb.TestServiceClient) testpb.TestService_FullDuplexCallClient {
	t.Helper()
	stream, err := client.FullDuplexCall(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// exchange sends a message and waits for the same: the stream has then been admitted.
func exchange(t *testing.T, stream testpb.TestService_FullDuplexCallClient, body string) {
	t.Helper()
	if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: []byte(body)}}); err != nil {
		t.Fatal(err)
	}
	if r, err := stream.Recv(); err != nil || string(r.Payload.Body) != body {
		t.Fatalf("received %v, %v; want %q", r, err, body)
	}
}

// hangUp returns when the stream has ended at the server too.
func hangUp(t *testing.T, stream testpb.TestService_FullDuplexCallClient) {
	t.Helper()
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("ended with %v, want EOF", err)
	}
}

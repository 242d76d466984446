package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// patience bounds the wait for events that must happen: no test depends on how soon.
const patience = 30 * time.Second

const unaryCall, duplexCall = "/grpc.testing.TestService/UnaryCall", "/grpc.testing.TestService/FullDuplexCall"

// noon is when the engines of most tests decide, so that no window ends between two requests.
func noon() penstock.Instant { return penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)) }

// newEngine returns an engine in memory.
func newEngine(t testing.TB, text string, o engine.Options) *engine.Engine {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{Secret: "of the tests", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if o.Store == nil {
		store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		o.Store = store
	}
	o.Rules = engine.Fixed(snapshot)
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func newLimiter(t testing.TB, d penstock.Decider, o grpclimit.Options) *grpclimit.Limiter {
	t.Helper()
	if e, ok := d.(*engine.Engine); ok && o.Sources == nil {
		o.Sources = e.Sources
	}
	l, err := grpclimit.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// service echoes what it was sent, and counts the requests that reached it.
type service struct {
	testpb.UnimplementedTestServiceServer
	reached atomic.Int64
}

func (s *service) UnaryCall(ctx context.Context, r *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	s.reached.Add(1)
	how, cost, tells := strings.Cut(string(r.Payload.GetBody()), " ")
	switch how {
	case "panic":
		panic(how)
	case "fail":
		return nil, failure(cost)
	}
	if tells {
		if err := inContext(ctx, how, metadata.Pairs("x-cost", cost)); err != nil {
			return nil, err
		}
	}
	return &testpb.SimpleResponse{Payload: r.Payload}, nil
}

func (s *service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	s.reached.Add(1)
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if how, cost, tells := strings.Cut(string(r.Payload.GetBody()), " "); tells {
			if how == "fail" {
				return failure(cost)
			}
			if err := inStream(stream, how, metadata.Pairs("x-cost", cost)); err != nil {
				return err
			}
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: r.Payload}); err != nil {
			return err
		}
	}
}

// failure returns the status of a code, by its name.
func failure(name string) error {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(`"` + name + `"`)); err != nil {
		return err
	}
	return status.Error(c, "as asked for")
}

// inContext sends metadata to a client, in one of the possible ways.
func inContext(ctx context.Context, how string, md metadata.MD) error {
	switch how {
	case "set":
		return grpc.SetHeader(ctx, md)
	case "send":
		return grpc.SendHeader(ctx, md)
	}
	return grpc.SetTrailer(ctx, md)
}

func inStream(stream grpc.ServerStream, how string, md metadata.MD) error {
	switch how {
	case "set":
		return stream.SetHeader(md)
	case "send":
		return stream.SendHeader(md)
	case "trail":
		stream.SetTrailer(md)
		return nil
	}
	return inContext(stream.Context(), strings.TrimPrefix(how, "context-"), md)
}

// serve starts a server behind a limiter and returns a client of it.
func serve(t testing.TB, l *grpclimit.Limiter) (testpb.TestServiceClient, *service) {
	t.Helper()
	return serveWith(t, l, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func serveWith(t testing.TB, l *grpclimit.Limiter, options []grpc.ServerOption, dial ...grpc.DialOption) (testpb.TestServiceClient, *service) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ChainUnaryInterceptor(contain, l.Unary()), grpc.ChainStreamInterceptor(l.Stream()))...)
	s := new(service)
	testpb.RegisterTestServiceServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return testpb.NewTestServiceClient(conn), s
}

// contain turns a panic into a status, as servers do that survive one.
func contain(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = status.Errorf(codes.Internal, "panic: %v", p)
		}
	}()
	return handler(ctx, request)
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func say(body string) *testpb.SimpleRequest {
	return &testpb.SimpleRequest{Payload: &testpb.Payload{Body: []byte(body)}}
}

func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("ended with %v (%v), want %v", got, err, want)
	}
}

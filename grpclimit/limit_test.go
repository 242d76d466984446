package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/grpclimit"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
)

func newFrontDoor(t *testing.T, options ...penstock.Option) *penstock.Limiter {
	t.Helper()
	store, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	l, err := penstock.New(store, options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Unary requests and streams count by the key. A request without one never reaches the service.
func TestLimitCountsByKey(t *testing.T) {
	byMethod := grpclimit.ByFunc(func(ctx context.Context, method string) (string, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		if len(md.Get("x-user")) == 0 {
			return "", errors.New("nobody")
		}
		return method + " " + md.Get("x-user")[0], nil
	})
	for name, test := range map[string]struct {
		key           httplimit.Key
		again, other  codes.Code // the code of a second request, and of one with another value
		without       codes.Code // and of one with none
		streamOfFirst codes.Code
	}{
		"address":  {grpclimit.ByIP(), codes.ResourceExhausted, codes.ResourceExhausted, codes.ResourceExhausted, codes.ResourceExhausted},
		"metadata": {grpclimit.ByMetadata("x-user"), codes.ResourceExhausted, codes.OK, codes.InvalidArgument, codes.ResourceExhausted},
		"function": {byMethod, codes.ResourceExhausted, codes.OK, codes.InvalidArgument, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			client, service := serve(t, grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1), penstock.WithName("calls")), test.key))
			as := func(user string) context.Context { return metadata.AppendToOutgoingContext(patient(t), "x-user", user) }
			var md metadata.MD
			if _, err := client.UnaryCall(as("a"), say("hello"), grpc.Header(&md)); err != nil || len(md.Get("ratelimit-policy")) != 1 {
				t.Fatalf("%v, %v", md, err)
			}
			_, err := client.UnaryCall(as("a"), say("hello"))
			wantCode(t, err, test.again)
			_, err = client.UnaryCall(as("b"), say("hello"))
			wantCode(t, err, test.other)
			reached := service.reached.Load()
			_, err = client.UnaryCall(patient(t), say("hello"))
			wantCode(t, err, test.without)
			if got := service.reached.Load(); got != reached {
				t.Error("a call without a key reached the service")
			}
			stream, err := client.FullDuplexCall(as("a"))
			if err != nil {
				t.Fatal(err)
			}
			if test.streamOfFirst == codes.OK {
				exchange(t, stream, "hello")
				hangUp(t, stream)
				return
			}
			_, err = stream.Recv()
			wantCode(t, err, test.streamOfFirst)
		})
	}
}

// A stream holds its permit until it ends.
func TestLimitConcurrency(t *testing.T) {
	client, _ := serve(t, grpclimit.Limit(newFrontDoor(t, penstock.Concurrent(1)), grpclimit.ByIP()))
	stream := open(t, client)
	exchange(t, stream, "hello")
	_, err := client.UnaryCall(patient(t), say("hello"))
	wantCode(t, err, codes.ResourceExhausted)
	hangUp(t, stream)
	if _, err := client.UnaryCall(patient(t), say("hello")); err != nil {
		t.Error(err)
	}
}

// Rules that read an attribute that no request can have are an error, here too.
func TestAttributesThatNobodyProvides(t *testing.T) {
	e := newEngine(t, "rules: [{name: per-tenant, key: [tenant], limits: [1/1h]}]", engine.Options{})
	if _, err := grpclimit.New(e, grpclimit.Options{}); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), `rule "per-tenant"`) {
		t.Errorf("%v", err)
	}
}

func TestLimitPanicsWithoutALimiter(t *testing.T) {
	for name, limit := range map[string]func(){
		"no limiter": func() { grpclimit.Limit(nil, grpclimit.ByIP()) },
		"no key":     func() { grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), httplimit.Key{}) },
		"nil func":   func() { grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), grpclimit.ByFunc(nil)) },
		"bad name":   func() { grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), grpclimit.ByMetadata("x key")) },
	} {
		func() {
			defer func() {
				text := fmt.Sprint(recover())
				if !strings.HasPrefix(text, "grpclimit.Limit: ") || strings.Contains(text, "httplimit") || strings.Contains(text, "header") {
					t.Errorf("%s: panic %q", name, text)
				}
			}()
			limit()
		}()
	}
	if _, err := grpclimit.New((*penstock.Limiter)(nil), grpclimit.Options{}); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), "the limiter is nil; check the error of penstock.New") {
		t.Errorf("%v", err)
	}
}

// Errors about metadata do not name headers, which gRPC clients do not know.
func TestErrorsNameMetadata(t *testing.T) {
	client, _ := serve(t, grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), grpclimit.ByMetadata("x-api-key")))
	for _, test := range []struct {
		pairs []string
		want  string
	}{
		{nil, "the metadata entry x-api-key is missing"},
		{[]string{"x-api-key", "a", "x-api-key", "b"}, "the metadata entry X-Api-Key is sent more than once"},
		{[]string{"x-api-key", "a", "x_api_key", "b"}, "a metadata entry was sent that servers read as X-Api-Key"},
		{[]string{"x-api-key", strings.Repeat("a", httplimit.MaxValue+1)}, "the metadata entry X-Api-Key (attribute key) has 8193 bytes"},
		{[]string{"x-api-key", "a", "idempotency-key", "b", "idempotency-key", "c"}, "the metadata entry Idempotency-Key is sent more than once"},
	} {
		_, err := client.UnaryCall(metadata.AppendToOutgoingContext(patient(t), test.pairs...), say("hello"))
		wantCode(t, err, codes.InvalidArgument)
		if !strings.Contains(err.Error(), "the request was rejected: "+test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// OnError gets the error of a key function, and the client does not.
func TestOnErrorGetsCauses(t *testing.T) {
	cause := errors.New("db down")
	told := make(chan error, 1)
	client, _ := serve(t, newLimiter(t, newFrontDoor(t, penstock.PerHour(1)), grpclimit.Options{
		ReaderOptions: httplimit.ReaderOptions{Key: grpclimit.ByFunc(func(context.Context, string) (string, error) { return "", cause })},
		OnError:       func(_ string, err error) { told <- err },
	}))
	_, err := client.UnaryCall(patient(t), say("hello"))
	wantCode(t, err, codes.InvalidArgument)
	if strings.Contains(err.Error(), "db down") {
		t.Errorf("the client is told %v", err)
	}
	if err := <-told; !errors.Is(err, cause) {
		t.Errorf("told %v, want %v", err, cause)
	}
}

// Only a key that is an address needs one: the peers of Unix sockets and of connections in memory have none.
func TestPeerWithoutAddress(t *testing.T) {
	handler := func(context.Context, any) (any, error) { return nil, nil }
	for name, ctx := range map[string]context.Context{
		"no peer":     t.Context(),
		"no address":  peer.NewContext(t.Context(), &peer.Peer{}),
		"Unix socket": peer.NewContext(t.Context(), &peer.Peer{Addr: &net.UnixAddr{Name: "@", Net: "unix"}}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := metadata.NewIncomingContext(ctx, metadata.Pairs("x-api-key", "a"))
			call := grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), grpclimit.ByMetadata("x-api-key")).Unary()
			for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
				_, err := call(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryCall}, handler)
				wantCode(t, err, want)
			}
			call = grpclimit.Limit(newFrontDoor(t, penstock.PerHour(1)), grpclimit.ByIP()).Unary()
			_, err := call(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unaryCall}, handler)
			wantCode(t, err, codes.InvalidArgument)
		})
	}
}

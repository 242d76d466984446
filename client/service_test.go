package client_test

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// The tests of this package cover both clients: they behave alike.

// patience bounds the wait for events that must happen: no test depends on how soon.
const patience = 30 * time.Second

// A remote is either client.
type remote interface {
	penstock.Decider
	penstock.Concluder
	DecideEach(ctx context.Context, calls []penstock.Call, verdicts []penstock.Verdict, errs []error)
	Close() error
}

// A decisions is what both servers need from a decider.
type decisions interface {
	penstock.Decider
	penstock.Concluder
}

// A transport is a way from a client to a server.
type transport struct {
	name  string
	serve func(t testing.TB, d decisions) (address string)
	open  func(t testing.TB, address string, timeout time.Duration, onError client.OnError) remote
}

var transports = []transport{
	{"http", serveHTTP, openHTTP},
	{"grpc", serveGRPC, openGRPC},
}

// overBoth runs a test with either client.
func overBoth(t *testing.T, test func(t *testing.T, over transport)) {
	t.Helper()
	for _, over := range transports {
		t.Run(over.name, func(t *testing.T) { test(t, over) })
	}
}

// connect returns a client of a server that asks d.
func (over transport) connect(t testing.TB, d decisions) remote {
	t.Helper()
	return over.open(t, over.serve(t, d), patience, client.Allow)
}

func serveHTTP(t testing.TB, d decisions) string {
	t.Helper()
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := api.New(api.Options{Decider: d, Concluder: d, Reader: reader, Writer: writer})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func openHTTP(t testing.TB, address string, timeout time.Duration, onError client.OnError) remote {
	t.Helper()
	c, err := client.NewHTTP(address, client.Options{Timeout: timeout, OnError: onError, ResponseHeaders: []string{"X-Cost"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func serveGRPC(t testing.TB, d decisions) string {
	t.Helper()
	server, err := grpcapi.NewServer(grpcapi.Options{Decider: d, Concluder: d}, grpc.ConnectionTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return listen(t, server)
}

func listen(t testing.TB, server *grpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		// A test may be over before Serve has begun.
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

func openGRPC(t testing.TB, address string, timeout time.Duration, onError client.OnError) remote {
	t.Helper()
	c, err := grpcclient.New(address, grpcclient.Options{
		Timeout: timeout, OnError: onError, ResponseHeaders: []string{"X-Cost"},
		Dial: []grpc.DialOption{
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: patience}),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// newEngine returns an engine in memory with a stopped clock, so that no window ends between two requests.
func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	const text = `
rules:
  - {name: search, match: {path: /search}, key: [user], limits: [{rate: 10/1m, algorithm: fixed_window}]}
  - {name: tokens, match: {path: /tokens}, key: [user], reserve: {ttl: 5m}, limits: [{rate: 100/1m, algorithm: fixed_window}]}
  - {name: jobs, match: {path: /jobs}, key: [user], reserve: {ttl: 5m}, dedup: {ttl: 10m, max_replays: 9, replay_budget: 900}, limits: [{concurrent: 2, ttl: 30s}, {rate: 10000/1m, algorithm: fixed_window}]}
  - {name: failed, match: {path: /login}, key: [], limits: [{rate: 5/1m, algorithm: fixed_window}], charge_if: 'status == 401 || header("X-Cost") == "1"'}
  - {name: told, match: {path: /told}, key: [user], cost: {response_header: X-Cost, default: 1, max: 50}, limits: [{rate: 100/1m, algorithm: fixed_window}]}
`
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{Secret: "of the tests", Version: 7})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: func() penstock.Instant {
		return penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func call(path, user string) penstock.Call {
	return penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: path}, {Name: "user", Value: user}}}
}

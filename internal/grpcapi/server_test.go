package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/memstore"
	penstockv1 "github.com/penstock-io/penstock/proto/penstock/v1"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// patience is how long tests wait for what must happen. No test depends on how soon.
const patience = 30 * time.Second

const ruleText = `
rules:
  - {name: search, match: {path: /search}, key: [user], limits: [{rate: 10/1m, algorithm: fixed_window}]}
  - {name: tokens, match: {path: /tokens}, key: [user], reserve: {ttl: 5m}, limits: [{rate: 100/1m, algorithm: fixed_window}]}
  - {name: told, match: {path: /told}, key: [user], cost: {response_header: X-Cost, default: 1, max: 50}, limits: [{rate: 100/1m, algorithm: fixed_window}]}
  - {name: tried, match: {path: /search}, key: [], mode: shadow, limits: [0/1m]}
  - {name: steps, match: {path: /steps}, key: [user], limits: [{rate: 3/1m, algorithm: token_bucket, refill: interval}]}
  - {name: host, match: {path: /host}, key: [host], limits: [{rate: 3/1m, algorithm: fixed_window}]}
  - {name: strict, match: {path: /strict}, key: [], on_store_error: deny, limits: [1/1m]}
`

func noon() penstock.Instant { return penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)) }

func newEngine(t testing.TB, store penstock.Store) *engine.Engine {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(ruleText)}}, rules.Options{Secret: "of the tests", Version: 7})
	if err != nil {
		t.Fatal(err)
	}
	if store == nil {
		memory, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { memory.Close() })
		store = memory
	}
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// serve starts a server and returns a connection to it.
func serve(t testing.TB, o grpcapi.Options) *grpc.ClientConn {
	t.Helper()
	server, err := grpcapi.NewServer(o, grpc.ConnectionTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
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
	return conn
}

func newClient(t testing.TB) penstockv1.DecisionsClient {
	e := newEngine(t, nil)
	return penstockv1.NewDecisionsClient(serve(t, grpcapi.Options{Decider: e, Concluder: e, Batch: e}))
}

func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func call(path string) *penstockv1.CheckRequest {
	return &penstockv1.CheckRequest{Attributes: map[string]string{"path": path, "user": "u1"}}
}

func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Fatalf("ended with %v (%v), want %v", got, err, want)
	}
}

// goneStore is a store that is unavailable.
type goneStore struct{}

func (goneStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return penstock.ErrUnavailable
}

// failing is a concluder whose store is unavailable.
type failing struct{}

func (failing) Conclude(context.Context, *penstock.Conclusion, *penstock.Verdict) error {
	return errors.Join(penstock.ErrClosed, errors.New("connect to 10.1.2.3"), penstock.ErrUnavailable)
}

func TestStoreGone(t *testing.T) {
	var log bytes.Buffer
	client := penstockv1.NewDecisionsClient(serve(t, grpcapi.Options{
		Decider: newEngine(t, goneStore{}), Concluder: failing{}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	for path, quality := range map[string]penstockv1.Quality{"/search": penstockv1.Quality_QUALITY_OPEN, "/strict": penstockv1.Quality_QUALITY_CLOSED} {
		v, err := client.Check(patient(t), call(path))
		if err != nil || v.Allowed != (path == "/search") || v.Reason != penstockv1.Reason_REASON_STORE_ERROR || v.Quality != quality {
			t.Errorf("%s: %v, %v", path, v, err)
		}
	}
	_, err := client.Release(patient(t), &penstockv1.ReleaseRequest{Reservation: "some"})
	wantCode(t, err, codes.Unavailable)
	if strings.Contains(err.Error(), "10.1.2.3") {
		t.Errorf("the client is told of servers: %v", err)
	}
	if !strings.Contains(log.String(), "10.1.2.3") {
		t.Errorf("the log does not say why: %s", log.String())
	}
}

// panickingDecider is a decider with a bug.
type panickingDecider struct{ failing }

func (panickingDecider) Decide(context.Context, *penstock.Call, *penstock.Verdict) error {
	panic("a mistake")
}

func TestPanicIsContained(t *testing.T) {
	client := penstockv1.NewDecisionsClient(serve(t, grpcapi.Options{Decider: panickingDecider{}, Concluder: failing{}}))
	for range 2 {
		_, err := client.Check(patient(t), call("/search"))
		wantCode(t, err, codes.Internal)
	}
}

func TestHealth(t *testing.T) {
	e := newEngine(t, nil)
	health := grpc_health_v1.NewHealthClient(serve(t, grpcapi.Options{Decider: e, Concluder: e}))
	for _, service := range []string{"", "penstock.v1.Decisions"} {
		r, err := health.Check(patient(t), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || r.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, r, err)
		}
	}
}

func TestNeedsBoth(t *testing.T) {
	if _, err := grpcapi.NewServer(grpcapi.Options{}); err == nil {
		t.Error("a server with nobody to ask")
	}
}

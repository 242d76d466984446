package api_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/readiness"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const ruleText = `
attributes:
  user: {header: X-User}
  team: {header: X-Team}
rules:
  - {name: search-per-user, match: {method: GET, path: /search}, key: [user], limits: [100/1m]}
  - {name: tokens-per-team, match: {path: /v1/complete}, key: [team], reserve: {ttl: 5m}, limits: [{rate: 1000/1m, burst: 1000, algorithm: token_bucket}]}
  - {name: jobs, match: {path: /jobs}, key: [user], limits: [{concurrent: 2, ttl: 30s}]}
  - {name: even, match: {path: /even}, key: [], limits: [{rate: 10/s, queue: 5, algorithm: leaky_bucket}]}
  - {name: tried, match: {path: /tried}, key: [], mode: shadow, limits: [0/1m]}
  - {name: per-ip, match: {path: "/limited/{rest...}"}, key: [ip], limits: [{rate: 3/h, algorithm: token_bucket, burst: 3}]}
  - {name: posts-per-host, match: {method: POST, path: "/posts/{id}"}, key: [host], limits: [{rate: 1/h, algorithm: token_bucket, burst: 1}]}
  - {name: failed-logins, match: {path: /login}, key: [ip], limits: [{rate: 5/1h, algorithm: fixed_window}], charge_if: status == 401}
  - {name: closed, match: {path: /closed}, key: [], on_store_error: deny, limits: [100/1m]}
`

// A setup is what a test changes of an ordinary server.
type setup struct {
	store   penstock.Store // nil: memory
	now     func() penstock.Instant
	trusted []netip.Prefix
	limits  api.Limits
	slow    bool // decides batches one by one
	log     io.Writer
	ready   func() readiness.State
	hosts   webguard.Hosts
}

func newHandler(t testing.TB, s setup) http.Handler {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(ruleText)}}, rules.Options{Secret: "test", Version: 7})
	if err != nil {
		t.Fatal(err)
	}
	if s.store == nil {
		s.store = newMemory(t)
	}
	e, err := engine.New(engine.Options{Store: s.store, Rules: engine.Fixed(snapshot), Now: s.now})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{Sources: e.Sources, TrustedProxies: s.trusted})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := api.Options{Decider: e, Concluder: e, Batch: e, Reader: reader, Writer: writer, Limits: s.limits, Ready: s.ready, Hosts: s.hosts}
	if s.slow {
		o.Batch = nil
	}
	if s.log != nil {
		o.Log = slog.New(slog.NewTextHandler(s.log, nil))
	}
	h, err := api.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newMemory(t testing.TB) *memstore.Store {
	store, err := memstore.New(memstore.Options{MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// at returns a clock that stands still.
func at(when time.Time) func() penstock.Instant {
	return func() penstock.Instant { return penstock.InstantOf(when) }
}

var someday = time.Date(2026, 11, 15, 10, 0, 0, 0, time.UTC)

// unavailableStore is a store that is unavailable.
type unavailableStore struct{}

func (unavailableStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return penstock.ErrUnavailable
}

func (unavailableStore) Settle(context.Context, *storage.Settlement, *storage.SettleOutcome) error {
	return penstock.ErrUnavailable
}

// ask sends JSON, and checks the response against the OpenAPI document.
func ask(t testing.TB, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return send(t, h, r)
}

func send(t testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	conforms(t, r, w)
	return w
}

func call(path, user string) string {
	return `{"attributes":{"method":"GET","path":"` + path + `","user":"` + user + `"}}`
}

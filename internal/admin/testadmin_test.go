package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/blocks"
	"github.com/penstock-io/penstock/internal/entitlement"
	"github.com/penstock-io/penstock/internal/fleet"
	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/ruleservice"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/internal/trafficdb"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

const (
	patient       = 2 * time.Minute // how long a test waits for what must happen
	operatorToken = "operator-0123456789"
	viewerToken   = "viewer-0123456789"
)

const someRules = `# what the tests go by
attributes:
  user: {header: X-User}
  plan: {header: X-Plan}
rules:
  - name: per-user # everybody's
    match: {path: /search}
    key: [user]
    limits: [{rate: 3/1h, algorithm: sliding_window_log}]
    penalty: {after: 100, within: 1h, bans: [1m]}
  - name: per-ip
    key: [ip]
    limits: [{rate: 1000/1h, algorithm: sliding_window_log}]
  - name: tried
    mode: shadow
    key: []
    limits: [{rate: 2/1h, algorithm: sliding_window_log}]
`

// A setup configures a stand; the zero value is in memory, with rules in a database.
type setup struct {
	rules string // default someRules
	store admin.Store
	local penstock.Store
	kind  admin.Kind
	now   func() penstock.Instant // of requests; nil: the clock
	nodes []membership.KnownNode  // other nodes; none: only this one

	database string // of the rules; default: a new SQLite file
	kept     bool   // the database has rules already
	history  bool   // the node keeps one, in that database

	toolStore func(maxBytes int64) (admin.ToolStore, error) // default: of at most 2 MiB
}

// A testAdmin is an admin API with the parts of a real node.
type testAdmin struct {
	t       testing.TB
	door    *admin.Admin
	engine  *engine.Engine
	live    *live.Rules
	service *ruleservice.Service // nil: the rules are in files
	traffic *traffic.Traffic
	clock   *clock
	log     *syncBuffer
	callers int // number of different clients so far
	demo    *idleDemo
}

func newTestAdmin(t testing.TB, o setup) *testAdmin {
	t.Helper()
	if o.rules == "" {
		o.rules = someRules
	}
	if o.store == nil {
		o.store = newMemory(t)
	}
	if o.kind == "" {
		o.kind = admin.Database
	}
	if o.toolStore == nil {
		o.toolStore = func(maxBytes int64) (admin.ToolStore, error) {
			store, err := memstore.New(memstore.Options{MaxBytes: min(maxBytes, 2<<20)})
			return toolStore{store}, err
		}
	}
	if o.nodes == nil {
		o.nodes = []membership.KnownNode{{ID: "ME", Self: true, Node: &membership.Node{Name: "here", Version: "1.0", Quality: membership.Exact}}}
	}
	s := &testAdmin{t: t, demo: &idleDemo{}, clock: &clock{now: time.Now()}, log: &syncBuffer{}, traffic: traffic.New()}
	t.Cleanup(s.traffic.Close)
	log := slog.New(slog.NewJSONHandler(s.log, nil))
	compile := rules.Options{Secret: "secret"}
	var origin live.Origin
	var err error
	origin, s.service = s.open(o, compile)
	s.live, err = live.Follow(t.Context(), origin, live.Options{Compile: compile, Interval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.live.Close)
	blocked := blocks.Open(blocks.Options{})
	t.Cleanup(blocked.Close)
	var table rules.Entitlements
	if database, ok := origin.(*ruledb.Origin); ok {
		followed, err := entitlement.Follow(t.Context(), database, entitlement.Options{Interval: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(followed.Close)
		table = followed
	}
	s.engine, err = engine.New(engine.Options{Store: o.store, Rules: s.live, Entitlements: table, Blocks: blocked.List(), Observe: s.traffic.Observe, Now: o.now})
	if err != nil {
		t.Fatal(err)
	}
	var all *fleet.Fleet
	if o.history {
		recorder := trafficdb.Start(trafficdb.Options{Traffic: s.traffic, Database: origin.(*ruledb.Origin).DB, Node: "ME", Name: "here", Log: log})
		t.Cleanup(recorder.Close)
		all = fleet.New(fleet.Options{Traffic: s.traffic, Members: func() []membership.KnownNode { return o.nodes }, History: recorder})
		t.Cleanup(all.Close)
	}
	s.door, err = admin.New(admin.Options{
		Fleet: all,
		Token: operatorToken, ViewerToken: viewerToken, Hosts: webguard.Hosts{Loopback: true},
		Status: func() admin.Status {
			return admin.Status{Ready: true, Addresses: map[string]string{}, Store: admin.StoreStatus{Kind: "memory", Connected: true, Nodes: 1}}
		},
		Nodes:        func() []membership.KnownNode { return o.nodes },
		Ready:        func() error { return nil },
		Rules:        admin.Rules{Live: s.live, Origin: origin, Kind: o.kind, Service: s.service, Compile: compile},
		Entitlements: table,
		Store:        o.store, Local: o.local, Blocks: blocked, Traffic: s.traffic, Log: log, Now: s.clock.Now, Demo: s.demo,
		Scratch:   func() (admin.Scratch, error) { return memstore.New(memstore.Options{MaxBytes: 8 << 20}) },
		ToolStore: o.toolStore,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintln(w, "penstock_up 1")
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.door.Close() })
	s.door.SetToolTime(time.Hour) // a busy machine may need more than a node gives
	return s
}

// open stores the rules at their origin.
func (s *testAdmin) open(o setup, compile rules.Options) (live.Origin, *ruleservice.Service) {
	s.t.Helper()
	if o.kind != admin.Database {
		file := filepath.Join(s.t.TempDir(), "rules.yaml")
		if err := os.WriteFile(file, []byte(o.rules), 0o600); err != nil {
			s.t.Fatal(err)
		}
		origin, err := live.NewFiles(file)
		if err != nil {
			s.t.Fatal(err)
		}
		return origin, nil
	}
	if o.database == "" {
		o.database = "sqlite:" + filepath.Join(s.t.TempDir(), "rules.db")
	}
	origin, err := ruledb.NewOrigin(o.database, ruledb.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { origin.Close() })
	service := &ruleservice.Service{Database: origin, Compile: compile}
	if o.kept {
		return origin, service
	}
	if _, err := service.Apply(s.t.Context(), "rules", ruledb.Change{Author: "test", Message: "first", Document: []byte(o.rules)}); err != nil {
		s.t.Fatal(err)
	}
	return origin, service
}

func newMemory(t testing.TB) *memstore.Store {
	t.Helper()
	m, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func newRedis(t testing.TB) *redisstore.Store {
	t.Helper()
	r, err := redisstore.Open(redisstore.Options{Addresses: []string{redistest.Start(t).Addr}, Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// onBothStores runs a test in memory and in Redis.
func onBothStores(t *testing.T, test func(t *testing.T, store admin.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, newMemory(t)) })
	t.Run("redis", func(t *testing.T) { test(t, newRedis(t)) })
}

// call decides a request, and reports whether it was allowed.
func (s *testAdmin) call(attributes ...string) bool {
	s.t.Helper()
	c := penstock.Call{Cost: 1}
	for i := 0; i < len(attributes); i += 2 {
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: attributes[i], Value: attributes[i+1]})
	}
	var v penstock.Verdict
	if err := s.engine.Decide(context.Background(), &c, &v); err != nil {
		s.t.Fatal(err)
	}
	return v.Allowed
}

// request returns a request from a new client, unless its address is set.
func (s *testAdmin) request(method, path, body string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(body))
	s.callers++
	r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", s.callers>>16&255, s.callers>>8&255, s.callers&255)
	r.Host = "localhost"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// serve serves a request, and checks that the document describes the response.
func (s *testAdmin) serve(r *http.Request) *httptest.ResponseRecorder {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.door.ServeHTTP(w, r)
	conforms(s.t, r, w)
	return w
}

// ask sends a request as an operator.
func (s *testAdmin) ask(method, path, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.askAs(operatorToken, method, path, body)
}

func (s *testAdmin) askAs(token, method, path, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.serve(s.request(method, path, body, "Authorization", "Bearer "+token))
}

// get sends a request as an operator, which must succeed.
func get[T any](s *testAdmin, method, path, body string) (found T) {
	s.t.Helper()
	w := s.ask(method, path, body)
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s %s %.200s: %d %s", method, path, body, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &found); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// refused sends a request as an operator, which must fail with the code.
func (s *testAdmin) refused(method, path, body string, status int, code admin.Code, mentions ...string) *admin.Problem {
	s.t.Helper()
	w := s.ask(method, path, body)
	var p admin.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		s.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if w.Code != status || p.Status != status || p.Code != code {
		s.t.Errorf("%s %s %.200s: %d %s, want %d %s", method, path, body, w.Code, w.Body, status, code)
	}
	for _, text := range mentions {
		if !strings.Contains(w.Body.String(), text) {
			s.t.Errorf("%s %s %.200s does not mention %q: %s", method, path, body, text, w.Body)
		}
	}
	return &p
}

// object returns JSON of names and values.
func object(pairs ...any) string {
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1]
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patient, what)
		}
	}
}

// A clock is advanced manually.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package telemetry_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

const document = `
rules:
  - {name: login, match: {path: /login}, key: [ip], limits: [{rate: 2/1h, algorithm: fixed_window}]}
  - {name: tried, match: {path: /login}, key: [ip], limits: [{rate: 1/1h, algorithm: fixed_window}], mode: shadow}
  - {name: fails, match: {path: /login, when: int(ip) > 0, on_error: skip}, key: [ip], limits: [1/1h]}
  - {name: entitled, match: {path: /login}, key: [ip], limits: [{rate: "{ip.logins}/1h", max: 1000, default: 100}]}
`

// A node has decisions that are timed and counted, in memory.
type node struct {
	*telemetry.Decider
	metrics *telemetry.Metrics
	state   telemetry.State
}

func newNode(t *testing.T, tracing *telemetry.Tracing) *node {
	t.Helper()
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{Secret: "of the tests", Version: 3})
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	seen := traffic.New()
	t.Cleanup(seen.Close)
	n := new(node)
	n.metrics, err = telemetry.New(telemetry.Options{
		Traffic: seen, State: func() telemetry.State { return n.state }, Version: "v1", GoVersion: "go1",
		Cause: func(err error) string { return "some" },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := engine.Options{Store: store, Rules: engine.Fixed(snapshot), Observe: seen.Observe}
	if tracing != nil {
		o.Store = observed(t, n, store, tracing.Tracer)
	}
	e, err := engine.New(o)
	if err != nil {
		t.Fatal(err)
	}
	n.Decider = n.metrics.Decider(e, nil)
	if tracing != nil {
		n.Decider = n.metrics.Decider(e, tracing.Tracer)
	}
	return n
}

func login(ip string) *penstock.Call {
	return &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/login"}, {Name: "ip", Value: ip}}}
}

func (n *node) decide(t *testing.T, c *penstock.Call) {
	t.Helper()
	if err := n.Decide(t.Context(), c, new(penstock.Verdict)); err != nil {
		t.Error(err)
	}
}

// scrape returns the samples of this product, without timings.
func (n *node) scrape(t *testing.T) []string {
	t.Helper()
	answer := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	var samples []string
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "penstock_") {
			samples = append(samples, lines.Text())
		}
	}
	slices.Sort(samples)
	return samples
}

func (n *node) check(t *testing.T, want ...string) {
	t.Helper()
	got := n.scrape(t)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
}

func TestMetrics(t *testing.T) {
	n := newNode(t, nil)
	n.state.Ready, n.state.Nodes, n.state.Blocks = true, 3, 2
	n.state.Rules.Count, n.state.Rules.Version, n.state.Rules.Checked = 2, 3, time.Unix(1_800_000_000, 0)
	n.state.Store = &telemetry.Store{Up: true, Refused: 4, Opened: 1, RoundTrips: 10, NoScript: 1}
	n.state.Memory = &telemetry.Memory{Keys: 5, Shared: 4, Bytes: 6, Evicted: 7, Refused: 8}
	n.state.Denied = &telemetry.DenyCacheStats{Hits: 9, Entries: 1}
	n.state.Leases = &telemetry.Leases{Leased: 11, Exact: 12, Permits: 13, Expired: 14}
	for range 3 {
		n.decide(t, login("198.51.100.7"))
	}
	n.decide(t, &penstock.Call{Cost: 1})
	if err := n.Decide(t.Context(), &penstock.Call{Cost: -1}, new(penstock.Verdict)); err == nil {
		t.Error("a negative cost was decided")
	}
	calls := []penstock.Call{*login("198.51.100.8"), *login("198.51.100.9")}
	n.DecideEach(t.Context(), calls, make([]penstock.Verdict, 2), make([]error, 2))
	n.DecideTogether(t.Context(), calls, make([]penstock.Verdict, 2), make([]error, 2))
	n.check(t,
		`penstock_decisions_total{quality="exact",reason="ok",result="allowed"} 6`,
		`penstock_decisions_total{quality="exact",reason="no_rule",result="allowed"} 1`,
		`penstock_decisions_total{quality="exact",reason="over_limit",result="denied"} 1`,
		`penstock_rule_decisions_total{quality="exact",result="denied",rule="login"} 1`,
		`penstock_rule_decisions_total{quality="exact",result="allowed",rule="login"} 6`,
		`penstock_rule_decisions_total{quality="exact",result="shadow_allowed",rule="tried"} 3`,
		`penstock_rule_decisions_total{quality="exact",result="shadow_denied",rule="tried"} 4`,
		`penstock_rule_failures_total{rule="fails"} 7`,
		`penstock_limit_number_fallbacks_total{reason="missing",rule="entitled"} 7`,
		`penstock_shadow_denied_total 4`,
		`penstock_invalid_calls_total 1`,
		`penstock_decision_duration_seconds_count 7`, // the two batches count once each
		`penstock_ready 1`, `penstock_nodes 3`, `penstock_blocks 2`, `penstock_rules 2`, `penstock_rules_version 3`, `penstock_rules_refused 0`,
		`penstock_rules_checked_timestamp_seconds 1.8e+09`,
		`penstock_store_up 1`, `penstock_store_calls_refused_total 4`, `penstock_store_failures_total 1`,
		`penstock_store_round_trips_total 10`, `penstock_store_scripts_sent_total 1`,
		`penstock_memory_keys 5`, `penstock_memory_shared_counters 4`, `penstock_memory_bytes 6`, `penstock_memory_evicted_total 7`, `penstock_memory_refused_total 8`,
		`penstock_deny_cache_hits_total 9`, `penstock_deny_cache_entries 1`,
		`penstock_lease_decisions_total{by="permits"} 11`, `penstock_lease_decisions_total{by="store"} 12`,
		`penstock_lease_permits_total 13`, `penstock_lease_permits_expired_total 14`,
		`penstock_build_info{goversion="go1",version="v1"} 1`,
	)
}

// The number of series does not depend on the number or the names of clients.
func TestSeriesAreBounded(t *testing.T) {
	n := newNode(t, nil)
	for range 3 {
		n.decide(t, login("198.51.100.7"))
	}
	before := len(n.scrape(t))
	many := 20_000
	if testing.Short() {
		many = 2000
	}
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		many = 1_000_000
	}
	for i := range many {
		n.decide(t, login(fmt.Sprintf("caller %d \"}\n", i)))
	}
	if after := n.scrape(t); len(after) != before {
		t.Errorf("%d series, before %d callers %d:\n%s", len(after), many, before, strings.Join(after, "\n"))
	}
}

// observed returns the store behind a circuit breaker that the node observes.
func observed(t *testing.T, n *node, store storage.FullStore, tracer trace.Tracer) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(breaker.Options{
		Store: store, Probe: func(context.Context, int) error { return nil }, Observer: n.metrics.ObserveStore(tracer),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// lateStore is a store that is cut off at its deadline.
type lateStore struct{ storage.FullStore }

func (lateStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	time.Sleep(10 * time.Millisecond)
	return fmt.Errorf("%w: %w", penstock.ErrUnavailable, context.DeadlineExceeded)
}

func (lateStore) Settle(context.Context, *storage.Settlement, *storage.SettleOutcome) error {
	return penstock.ErrNoReservation
}

func (lateStore) ChargeLate(context.Context, *storage.LateCharge) error {
	return fmt.Errorf("%w: refused", penstock.ErrUnavailable)
}

// leftStore is a store whose clients leave before it answers.
type leftStore struct{ lateStore }

func (leftStore) Take(context.Context, *storage.Ticket, *storage.Outcome) error {
	return fmt.Errorf("%w: take: %w", penstock.ErrUnavailable, context.Canceled)
}

// A client that leaves is not an error of the store.
func TestCancelledIsNoStoreError(t *testing.T) {
	n := newNode(t, nil)
	n.state = telemetry.State{Store: &telemetry.Store{Cancelled: 7}}
	ticket := storage.Ticket{Groups: make([]storage.Group, 1)}
	if observed(t, n, leftStore{}, nil).Take(t.Context(), &ticket, nil) == nil {
		t.Error("the error is lost")
	}
	n.check(t, `penstock_cancelled_requests_total 7`, `penstock_store_duration_seconds_count{call="take"} 1`)
	for _, line := range n.scrape(t) {
		if strings.HasPrefix(line, "penstock_store_errors_total") {
			t.Errorf("it counts as an error: %s", line)
		}
	}
}

func TestTimedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil)
		store := observed(t, n, lateStore{}, nil)
		ticket := storage.Ticket{Groups: make([]storage.Group, 1)}
		if store.Take(t.Context(), &ticket, nil) == nil || store.Settle(t.Context(), &storage.Settlement{}, nil) == nil || store.ChargeLate(t.Context(), &storage.LateCharge{}) == nil {
			t.Error("the error is lost")
		}
		n.check(t,
			`penstock_store_duration_seconds_count{call="charge_late"} 1`,
			`penstock_store_errors_total{call="charge_late",kind="some"} 1`,
			`penstock_store_duration_seconds_bucket{call="take",le="0.01"} 0`,
			`penstock_store_duration_seconds_bucket{call="take",le="0.025"} 1`,
			`penstock_store_duration_seconds_count{call="settle"} 1`,
			`penstock_store_errors_total{call="take",kind="some"} 1`,
		)
		for _, line := range n.scrape(t) {
			if strings.HasPrefix(line, `penstock_store_errors_total{call="settle"`) {
				t.Errorf("an answer counts as an error: %s", line)
			}
		}
	})
}

// docs/reference/metrics.md lists every metric, up to date.
func TestReferenceIsCurrent(t *testing.T) {
	n := newNode(t, nil)
	n.state = telemetry.State{Entitlements: &telemetry.Entitlements{Read: time.Unix(1, 0)}, Store: &telemetry.Store{}, Memory: &telemetry.Memory{}, Denied: &telemetry.DenyCacheStats{}, Leases: &telemetry.Leases{}, Late: &telemetry.LateChargeStats{}, BodyWarnings: map[string]int64{"not_json": 0}, Held: &telemetry.HeldStats{Refused: map[string]int64{"even": 0}}, RefusedLogins: map[string]int64{"wrong_token": 0}, InvalidRequests: map[string]int64{"ratelimit": 0}, Certificates: map[string]telemetry.Certificate{"grpc": {}}}
	n.state.Rules.Checked = time.Unix(1, 0)
	for range 3 {
		n.decide(t, login("198.51.100.7"))
	}
	_ = observed(t, n, lateStore{}, nil).Take(t.Context(), new(storage.Ticket), nil)
	answer := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	help := regexp.MustCompile(`(?m)^# HELP (penstock_\w+) (.*)\n# TYPE \w+ (\w+)$`)
	labels := regexp.MustCompile(`(\w+)="`)
	var text strings.Builder
	text.WriteString(`# Metrics

Prometheus scrapes these at ` + "`GET /metrics`" + ` of the admin listener, beside the metrics of Go and of the process. This
page is generated from the code. No client is ever a label, so the number of series does not grow with the clients.

| Metric | Kind | Labels | What it is |
|---|---|---|---|
`)
	for _, m := range help.FindAllStringSubmatch(answer.Body.String(), -1) {
		var names []string
		if sample := regexp.MustCompile(`(?m)^` + m[1] + `(_count)?\{([^}]*)\}`).FindStringSubmatch(answer.Body.String()); sample != nil {
			for _, l := range labels.FindAllStringSubmatch(sample[2], -1) {
				names = append(names, "`"+l[1]+"`")
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", m[1], m[3], strings.Join(names, ", "), m[2])
	}
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written, err := os.ReadFile(path); err != nil || string(written) != text.String() {
		t.Errorf("docs/reference/metrics.md is not what there is (%v); PENSTOCK_TEST_UPDATE=1 writes it:\n%s", err, text.String())
	}
}

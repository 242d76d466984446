package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A collector is OpenTelemetry's, of tools/collector, and what it sent on.
type collector struct {
	http, grpc string // where it receives

	mu    sync.Mutex
	raw   []byte
	spans []*spans.Span
	sent  map[string]string // string attributes of the resource
}

// startCollector builds the collector, which takes minutes, and runs it.
func startCollector(t *testing.T) *collector {
	t.Helper()
	if os.Getenv("PENSTOCK_TEST_LONG") == "" {
		t.Skip("only with PENSTOCK_TEST_LONG=1: building the OpenTelemetry collector takes minutes")
	}
	if out, err := exec.Command("go", "-C", "../tools/collector", "list", "-deps", ".").CombinedOutput(); err != nil {
		t.Skipf("the modules of the OpenTelemetry collector cannot be had: %v\n%s", err, out)
	}
	built := filepath.Join(t.TempDir(), "collector")
	if out, err := exec.Command("go", "-C", "../tools/collector", "build", "-o", built, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the collector: %v\n%s", err, out)
	}
	c := &collector{sent: map[string]string{}}
	behind := httptest.NewServer(c)
	t.Cleanup(behind.Close)
	c.http, c.grpc = freeAddress(t), freeAddress(t)
	config := writeFile(t, filepath.Join(t.TempDir(), "collector.yaml"), fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: '%s'}, grpc: {endpoint: '%s'}}}}
exporters: {otlp_http: {endpoint: '%s', compression: none}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
  telemetry: {metrics: {level: none}}
`, c.http, c.grpc, behind.URL))
	log := filepath.Join(t.TempDir(), "log")
	process, err := child.Start(exec.Command(built, "--config", config), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Kill()
		if t.Failed() {
			t.Logf("the collector:\n%s", child.LogTail(log))
		}
	})
	for _, address := range []string{c.http, c.grpc} {
		eventually(t, "the collector receives", func() bool { return !refuses(address) })
	}
	return c
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ServeHTTP takes what the collector sends on.
func (c *collector) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var request otlp.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(data, &request) != nil {
		http.Error(rw, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, data...)
	for _, of := range request.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			c.sent[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// of returns the spans that a condition selects.
func (c *collector) of(which func(*spans.Span) bool) (found []*spans.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if which(s) {
			found = append(found, s)
		}
	}
	return found
}

func text(s *spans.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// OpenTelemetry's own collector understands what a node sends over both protocols: one decision with its verdict and,
// within it, one request to the store for each request, in the client's trace if there is one, and no word of who the
// client is.
func TestTracesInCollector(t *testing.T) {
	t.Parallel()
	got := startCollector(t)
	server := redistest.Start(t)
	for i, protocol := range []struct{ name, endpoint string }{{"http/protobuf", got.http}, {"grpc", got.grpc}} {
		t.Run(strings.ReplaceAll(protocol.name, "/", " "), func(t *testing.T) { traced(t, got, server.Addr, protocol.name, protocol.endpoint, i) })
	}
}

// Who asks in the test of traces.
const tracedUser, tracedIP = "mallory-4711", "198.51.100.77"

// ways sends one request each: to the gateway, the HTTP API and the gRPC API.
func (n *node) ways() []func(header ...string) {
	body := fmt.Sprintf(`{"attributes": {"path": "/x", "method": "GET", "user": %q, "ip": %q}}`, tracedUser, tracedIP)
	call := &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: "/x"}, {Name: "user", Value: tracedUser}, {Name: "ip", Value: tracedIP}}}
	return []func(header ...string){
		func(header ...string) {
			n.passed(n.get("gateway", "/x", append(header, "X-User: "+tracedUser, "X-Forwarded-For: "+tracedIP)...))
		},
		func(header ...string) {
			n.passed(n.send("POST", "http", "/v1/check", body, append(header, "Content-Type: application/json")...))
		},
		func(header ...string) {
			ctx := n.t.Context()
			for _, line := range header {
				name, value, _ := strings.Cut(line, ": ")
				ctx = metadata.AppendToOutgoingContext(ctx, name, value)
			}
			if err := n.grpc.Decide(ctx, call, new(penstock.Verdict)); err != nil {
				n.t.Error(err)
			}
		},
	}
}

const clientSpan = "b7ad6b7169203331"

func traced(t *testing.T, got *collector, redis, protocol, endpoint string, nth int) {
	service := fmt.Sprintf("penstock-%d", nth)
	dir, rule := t.TempDir(), fmt.Sprintf("traced%d", nth)
	document := fmt.Sprintf(`
attributes: {user: {header: X-User}}
rules: [{name: %s, match: {path: /x}, key: [user], limits: [1000/1h]}]
`, rule)
	config := writeFile(t, filepath.Join(dir, "penstock.yaml"), common+strings.Join([]string{
		onRedis("single", redis), newUpstream(t).config(), rulesFile(t, document),
	}, "\n"))
	c := command(dir, "serve", "--config", config)
	c.Env = append(c.Env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL="+protocol, "OTEL_SERVICE_NAME="+service)
	n := launchCommand(t, dir, c)
	n.awaitStore()
	var clients []string // their traces
	for i, ask := range n.ways() {
		trace := fmt.Sprintf("0af7651916cd43dd8448eb211c8031%d%d", nth, i)
		ask("traceparent: 00-" + trace + "-" + clientSpan + "-01")
		ask()
		clients = append(clients, trace)
	}
	n.terminate()
	n.awaitEnd() // it sends the last spans before

	want := 2 * len(clients)
	ours := func(s *spans.Span) bool { return s.Name == "penstock decide" && text(s, "penstock.rule") == rule }
	eventually(t, "a span of each decision", func() bool { return len(got.of(ours)) >= want })
	decided, traces := got.of(ours), map[string]string{}
	for _, s := range decided {
		traces[hex.EncodeToString(s.TraceId)] = hex.EncodeToString(s.ParentSpanId)
		got.checkDecision(t, s)
	}
	if len(decided) != want || len(traces) != want {
		t.Errorf("%d decisions in %d traces, want %d in as many", len(decided), len(traces), want)
	}
	for _, trace := range clients {
		if traces[trace] != clientSpan {
			t.Errorf("the decision in the client's trace %s has the parent %q, want %s", trace, traces[trace], clientSpan)
		}
	}
	got.checkNobodyNamed(t, service)
}

// checkDecision checks the attributes of a decision's span, and that the request to the store is within it.
func (c *collector) checkDecision(t *testing.T, s *spans.Span) {
	t.Helper()
	if text(s, "penstock.reason") != "ok" || text(s, "penstock.quality") != "exact" {
		t.Errorf("attributes %v", s.Attributes)
	}
	within := func(child *spans.Span) bool { return bytes.Equal(child.ParentSpanId, s.SpanId) }
	eventually(t, "a span of the store", func() bool { return len(c.of(within)) > 0 })
	for _, child := range c.of(within) {
		if child.Name != "penstock store take" || child.Kind != spans.Span_SPAN_KIND_CLIENT || !bytes.Equal(child.TraceId, s.TraceId) {
			t.Errorf("within a decision: %v", child)
		}
	}
}

func (c *collector) checkNobodyNamed(t *testing.T, service string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent["service.name"] != service {
		t.Errorf("resource %v", c.sent)
	}
	for _, secret := range []string{tracedUser, tracedIP} {
		if bytes.Contains(c.raw, []byte(secret)) {
			t.Errorf("the traces contain %q", secret)
		}
	}
}

package telemetry_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/telemetry"
)

// spanCollector are the spans that were sent over OTLP.
type spanCollector struct {
	mu    sync.Mutex
	spans []*spans.Span
}

func (c *spanCollector) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &request) != nil {
		http.Error(rw, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// A client's trace, as sent in a header.
const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

func TestTraces(t *testing.T) {
	var got spanCollector
	server := httptest.NewServer(&got)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	tracing, err := telemetry.NewTracing(t.Context(), "v1")
	if err != nil || tracing == nil {
		t.Fatal(tracing, err)
	}
	n := newNode(t, tracing)

	request := httptest.NewRequest("GET", "/", nil)
	request.Header.Set("Traceparent", parent)
	tracing.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = n.Decide(r.Context(), login("198.51.100.7"), new(penstock.Verdict))
	})).ServeHTTP(httptest.NewRecorder(), request)
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", parent))
	if _, err := tracing.Unary(ctx, nil, nil, grpc.UnaryHandler(func(ctx context.Context, _ any) (any, error) {
		return nil, n.Decide(ctx, login("198.51.100.7"), new(penstock.Verdict))
	})); err != nil {
		t.Error(err)
	}
	if err := tracing.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	names := map[string]int{}
	byID := map[string]*spans.Span{}
	for _, s := range got.spans {
		names[s.Name]++
		byID[string(s.SpanId)] = s
		if trace := hex.EncodeToString(s.TraceId); trace != traceID {
			t.Errorf("span %s is of trace %s, want the caller's", s.Name, trace)
		}
		for _, a := range s.Attributes {
			if text := a.Value.GetStringValue(); text == "198.51.100.7" {
				t.Errorf("span %s names the caller", s.Name)
			}
		}
	}
	if names["penstock decide"] != 2 || names["penstock store take"] != 2 || len(names) != 2 {
		t.Errorf("spans %v", names)
	}
	for _, s := range got.spans {
		if s.Name == "penstock store take" && byID[string(s.ParentSpanId)].GetName() != "penstock decide" {
			t.Error("a store's span is not within its decision's")
		}
	}
}

func TestNoTraces(t *testing.T) {
	for _, env := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run("", func(t *testing.T) {
			for name, value := range env {
				t.Setenv(name, value)
			}
			if tracing, err := telemetry.NewTracing(t.Context(), "v1"); tracing != nil || err != nil {
				t.Errorf("%v: %v, %v", env, tracing, err)
			}
		})
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	for name, bad := range map[string][]string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": {"http://u:SECRET@h:port", "http://u:SECRET", "http://u:%zzSECRET@h"},
		"OTEL_EXPORTER_OTLP_HEADERS":         {"SECRET", "a=b,SECRET", "Bearer SECRET==", "authorization=%zzSECRET"},
	} {
		for _, value := range bad {
			t.Run(name, func(t *testing.T) {
				t.Setenv(name, value)
				if _, err := telemetry.NewTracing(t.Context(), "test"); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "SECRET") {
					t.Errorf("%s=%s: %v", name, value, err)
				}
			})
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	if _, err := telemetry.NewTracing(t.Context(), "v1"); err == nil {
		t.Error("a protocol that is not spoken is taken")
	}
}

package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-io/penstock/internal/urlform"
)

// Tracing sends traces to the endpoint in the environment, as OpenTelemetry defines: OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT. Without either there is no tracing, and no cost.
type Tracing struct {
	Tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

// NewTracing returns nil if the environment does not ask for traces.
func NewTracing(ctx context.Context, version string) (*Tracing, error) {
	if !isTracingWanted() {
		return nil, nil
	}
	if err := checkEnv(); err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces by OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	// Later attributes win: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override ours.
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", "penstock"), attribute.String("service.version", version),
	), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracing{provider.Tracer("github.com/penstock-io/penstock"), provider}, nil
}

func isTracingWanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// checkEnv refuses values that OpenTelemetry cannot parse. It would print the value, which may be a secret, and
// continue without it.
func checkEnv() error {
	var errs []error
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if value := os.Getenv(name); value != "" {
			if _, err := url.Parse(value); err != nil {
				errs = append(errs, fmt.Errorf("%s: invalid URL %q", name, urlform.Redact(value)))
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if value := os.Getenv(name); value != "" && !areHeaders(value) {
			errs = append(errs, fmt.Errorf("%s: must be name=value pairs, separated by commas, values percent-encoded", name))
		}
	}
	return errors.Join(errs...)
}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func areHeaders(text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !ok || err != nil || !headerName.MatchString(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; must be http/protobuf or grpc", protocol)
	}
}

// Close sends the remaining spans.
func (t *Tracing) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

var w3c = propagation.TraceContext{}

// Handler makes the spans of a handler part of the client's trace.
func (t *Tracing) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(rw, r.WithContext(w3c.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

// Unary does the same for gRPC.
func (t *Tracing) Unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = w3c.Extract(ctx, carrier(md))
	}
	return handle(ctx, request)
}

// A carrier reads gRPC metadata.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(string, string) {}

func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c)) }

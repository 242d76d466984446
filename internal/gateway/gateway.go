package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/reqbody"
)

// A Gateway forwards the requests that the limiter allows.
type Gateway struct {
	limits   Limits
	timeouts Timeouts
	routes   []*route // the first match gets the request
	reader   *httplimit.Reader
	sources  func() []attribute.Source
	tls      *listener.Certificates // nil: plain HTTP
	h2c      bool
	fast     bool

	keepSlashes bool

	around func(http.Handler) http.Handler // nil: none

	log *slog.Logger

	proxyHeader string // canonical

	forwarded map[string]bool // headers that clients may send, by canonical name
	trace     bool

	bodies reqbody.Options

	exchanges sync.Pool // of *exchange

	proxy   *httputil.ReverseProxy
	limited http.Handler // the limiter, and the proxy behind it

	serving     atomic.Bool
	draining    atomic.Bool
	connections atomic.Int64 // open connections, except those switched to another protocol
	requests    atomic.Int64 // in flight
}

// New returns a gateway. The error lists everything that is wrong with the options.
func New(o Options) (*Gateway, error) {
	g := &Gateway{limits: o.Limits, timeouts: o.Timeouts, reader: o.Reader, sources: o.Sources, tls: o.TLS, h2c: o.H2C, keepSlashes: o.KeepEscapedSlashes, log: o.Log}
	g.around, g.trace, g.fast = o.Around, o.Trace, o.FastPath
	g.proxyHeader = http.CanonicalHeaderKey(o.ProxyHeader)
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	if g.sources == nil {
		g.sources = func() []attribute.Source { return nil }
	}
	errs := []error{validate(&o)}
	g.limits.setDefaults()
	g.timeouts.setDefaults()
	g.bodies = reqbody.Options{Wait: g.timeouts.Body}
	if g.limits.MinBodyRate > 0 {
		g.bodies.Total, g.bodies.Rate = positive(g.timeouts.Body, defaultBodyTimeout), g.limits.MinBodyRate
	}
	var err error
	if g.routes, err = g.newRoutes(o.Upstreams); err != nil {
		errs = append(errs, err)
	}
	if g.forwarded, err = g.checkForwarded(o.ForwardHeaders); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new gateway: %w", err)
	}
	g.exchanges.New = func() any { return new(exchange) }
	g.proxy = g.newProxy()
	g.limited = o.Limiter.Wrap(http.HandlerFunc(g.forward))
	return g, nil
}

func validate(o *Options) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Limiter == nil || o.Reader == nil {
		fail("it needs a limiter and a reader")
	}
	for _, limit := range []struct {
		name string
		n    int
	}{
		{"MaxHeaderBytes", o.Limits.MaxHeaderBytes},
		{"MaxQueryParameters", o.Limits.MaxQueryParameters},
		{"MaxConcurrentStreams", o.Limits.MaxConcurrentStreams},
	} {
		if limit.n < 0 {
			fail("limits: %s %d: there must be one; 0 is the default", limit.name, limit.n)
		}
	}
	return errors.Join(errs...)
}

// Handler returns the handler that Serve serves.
func (g *Gateway) Handler() http.Handler {
	if g.around != nil {
		return g.around(http.HandlerFunc(g.receive))
	}
	return http.HandlerFunc(g.receive)
}

// receive screens a request and hands it to the limiter.
func (g *Gateway) receive(rw http.ResponseWriter, req *http.Request) {
	g.requests.Add(1)
	defer g.requests.Add(-1)
	x := g.begin(rw, req)
	rw.Header()["X-Request-Id"] = x.id
	if x.last = g.isLast(req); x.last {
		rw.Header().Set("Connection", "close")
	}
	if hasBody(req) {
		x.body.Start(rw, req, g.bodies)
		defer x.body.End()
		req = x.copyRequest(req) // at the end of a request net/http checks the body of its own copy
		req.Body = &x.body
	}
	if p := g.screen(x, req); p != nil {
		write(&x.writer, p)
		return
	}
	if x.route != nil && x.route.request > 0 {
		defer x.limitTime(x.route.request)()
		req = x.copyRequest(req)
	}
	g.limited.ServeHTTP(&x.writer, req)
	x.writer.end()
	g.end(x)
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// isLast reports whether the connection should close after the request: while draining, and while other clients wait
// for a connection. A request that becomes a WebSocket closes its connection anyway.
func (g *Gateway) isLast(req *http.Request) bool {
	full := g.limits.MaxConnections > 0 && g.connections.Load() >= int64(g.limits.MaxConnections)
	return (full || g.draining.Load()) && len(req.Header["Upgrade"]) == 0
}

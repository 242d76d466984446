package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/httplimit/jwtclaims"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/connlimit"
	"github.com/penstock-io/penstock/internal/grpcapi"
	"github.com/penstock-io/penstock/internal/listener"
	"github.com/penstock-io/penstock/internal/readiness"
	"github.com/penstock-io/penstock/internal/reqbody"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/internal/serverlog"
)

// An endpoint is a listener and the function that serves its requests.
type endpoint struct {
	name     string // gateway, http, grpc, health, metrics, admin
	listener net.Listener
	serve    serve
}

// serve answers requests until the context ends, and returns when those in flight have ended.
type serve func(context.Context, net.Listener) error

func (d *endpoint) run(ctx context.Context) error {
	if err := d.serve(ctx, d.listener); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// address returns where a person on this machine reaches the endpoint.
func (d *endpoint) address() string {
	at, ok := d.listener.Addr().(*net.TCPAddr)
	if !ok {
		return "unix://" + d.listener.Addr().String()
	}
	if at.IP.IsUnspecified() {
		return fmt.Sprintf("localhost:%d", at.Port)
	}
	return at.String()
}

// reach says that other machines reach the endpoint at every address of this one, if they do.
func (d *endpoint) reach() string {
	if at, ok := d.listener.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
		return " (on all interfaces)"
	}
	return ""
}

// openTokens sets up the verification of tokens in requests, if keys are configured.
func (s *Server) openTokens(context.Context) error {
	t := &s.config.JWT
	if t.JWKSURL == "" && t.JWKSFile == "" && t.Secret == "" {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.atEnd(cancel)
	verifier, err := jwtclaims.New(ctx, jwtclaims.Options{
		JWKSURL: string(t.JWKSURL), Refresh: t.Refresh, JWKSFile: t.JWKSFile, Secret: []byte(t.Secret),
		Algorithms: t.Algorithms, Issuer: t.Issuer, Audience: t.Audience, Leeway: t.Leeway,
		Header: t.Header, Cookie: t.Cookie, Reject: t.Reject,
		OnError: func(err error) { s.log.Error("cannot fetch JWKS", "error", err) },
	})
	if err != nil {
		return fmt.Errorf("jwt: %w", err)
	}
	s.claims = verifier.Claims
	return nil
}

// openListeners opens the addresses of all listeners, and returns every error: if another server is running, one
// start names all the addresses it uses. Nothing is saved before, such as a new admin token that nobody would see.
func (s *Server) openListeners(context.Context) error {
	s.listeners = map[string]net.Listener{}
	var errs []error
	l := &s.config.Listen
	for _, d := range []struct{ name, address string }{
		{"gateway", l.Gateway}, {"http", l.HTTP}, {"grpc", l.GRPC}, {"admin", l.Admin}, {"health", l.Health}, {"metrics", l.Metrics},
	} {
		if d.address == "" {
			continue
		}
		opened, err := listener.Listen(d.address, l.SocketMode)
		if d.name == "admin" && s.config.AdminOptional && errors.Is(err, syscall.EADDRINUSE) {
			s.log.Warn("no admin API: its default address is taken; set listen.admin", "address", d.address)
			l.Admin = ""
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("listen.%s: %w", d.name, err))
			continue
		}
		s.atEnd(func() { opened.Close() })
		s.listeners[d.name] = opened
	}
	return errors.Join(errs...)
}

// openEndpoints sets up the endpoints for requests, and returns every error.
func (s *Server) openEndpoints(context.Context) error {
	return s.eachServe(func(name string, answer serve) { s.endpoints = append(s.endpoints, s.newEndpoint(name, answer)) })
}

// eachServe sets up what answers requests at each configured listener, and returns every error.
func (s *Server) eachServe(use func(name string, answer serve)) error {
	var errs []error
	for _, d := range []struct {
		name, address string
		make          func() (serve, error)
	}{
		{"gateway", s.config.Listen.Gateway, s.newGateway},
		{"http", s.config.Listen.HTTP, s.newAPI},
		{"grpc", s.config.Listen.GRPC, s.newGRPC},
	} {
		if d.address == "" {
			continue
		}
		answer, err := d.make()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		use(d.name, answer)
	}
	return errors.Join(errs...)
}

// connectionsFor returns how many connections a listener accepts at a time, besides the gateway, which has its own
// bound; others wait. A flood at one listener must leave open files for the others. A limit on open files that is
// unknown, or so large that it is none, counts as a usual one.
func connectionsFor(openFiles uint64, known bool) int {
	const usual, most = 1 << 16, 1 << 20
	if !known {
		openFiles = usual
	}
	return max(int(min(openFiles, most)/8), 16)
}

// newEndpoint returns the endpoint of an open listener.
func (s *Server) newEndpoint(name string, answer serve) *endpoint {
	opened := s.listeners[name]
	if n := connectionsFor(OpenFiles()); name != "gateway" {
		reserve := min(n/4, 128)
		opened = connlimit.New(opened, connlimit.Options{
			Max: n - reserve, PerClient: connlimit.Share(n-reserve, s.config.Listen.Share), Reserve: reserve, Exempt: s.isTrustedProxy,
			Refused: func(client netip.Prefix) {
				s.log.Debug("connection refused: the client has reached its share", "listener", name, "client", client)
			},
		})
	}
	return &endpoint{name, opened, answer}
}

func (s *Server) isTrustedProxy(address netip.Addr) bool {
	return slices.ContainsFunc(s.config.TrustedProxies, func(n config.Network) bool { return n.Contains(address) })
}

// operate adds an endpoint that is not for requests.
func (s *Server) operate(name string, handler http.Handler) *http.Server {
	server := newHTTPServer(handler, s.log.With("listener", name))
	s.operating = append(s.operating, s.newEndpoint(name, s.serveHTTP(server, 0)))
	return server
}

func (s *Server) allEndpoints() []*endpoint { return slices.Concat(s.endpoints, s.operating) }

// endpoint returns the endpoint with that name, or nil if it is off.
func (s *Server) endpoint(name string) *endpoint {
	for _, d := range s.allEndpoints() {
		if d.name == name {
			return d
		}
	}
	return nil
}

func (s *Server) readerOptions() httplimit.ReaderOptions {
	trusted := make([]netip.Prefix, len(s.config.TrustedProxies))
	for i, n := range s.config.TrustedProxies {
		trusted[i] = n.Prefix
	}
	return httplimit.ReaderOptions{
		Sources: s.decider.Sources, Claims: s.claims, TrustedProxies: trusted,
		ProxyHeader: s.config.ClientIP.Header, IPv6Prefix: s.config.ClientIP.IPv6Prefix,
		ReadsBody: s.decider.ReadsBody, MaxJSON: int64(s.config.Gateway.Limits.JSONBytes), OnBody: s.bodies.add,
	}
}

func (s *Server) newAPI() (serve, error) {
	reader, err := httplimit.NewReader(s.readerOptions())
	if err != nil {
		return nil, err
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{Headers: s.config.Headers})
	if err != nil {
		return nil, err
	}
	log := s.log.With("listener", "http")
	handler, err := api.New(api.Options{
		Decider: s.decider, Concluder: s.decider, Batch: s.decider, Reader: reader, Writer: writer, Log: log,
		Envoy: http.HandlerFunc(s.envoy.JSON), Hosts: s.config.Hosts(s.config.Listen.HTTP), Ready: s.readiness,
	})
	if err != nil {
		return nil, err
	}
	if s.tracing != nil {
		handler = s.tracing.Handler(handler)
	}
	return s.serveHTTP(newHTTPServer(handler, log), lingerFor), nil
}

// openProbes sets up the endpoint for health checks.
func (s *Server) openProbes(context.Context) error {
	if s.config.Listen.Health == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { readiness.Write(w, s.readiness()) })
	s.operate("health", mux)
	return nil
}

// openMetrics sets up the endpoint for Prometheus.
func (s *Server) openMetrics(context.Context) error {
	if s.config.Listen.Metrics == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.metrics.Handler())
	s.operate("metrics", mux)
	return nil
}

// newHTTPServer returns a server for small requests.
func newHTTPServer(handler http.Handler, log *slog.Logger) *http.Server {
	const body, rate = 10 * time.Second, 256 << 10 // a large body may take longer, at this rate
	return &http.Server{
		Handler:           reqbody.Handler(handler, reqbody.Options{Wait: body, Total: body, Rate: rate}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: body,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: serverlog.New(log),
	}
}

// lingerFor is how long idle connections of a listener for requests stay open for one last request.
const lingerFor = time.Second

// serveHTTP serves until the context ends, and then until the requests in flight have ended. Before it closes idle
// connections, it keeps them open for linger: a client that has just sent its next request must not find its
// connection closed. The response tells the client that this was the last one.
func (s *Server) serveHTTP(server *http.Server, linger time.Duration) serve {
	return func(ctx context.Context, l net.Listener) error {
		if bounded, ok := l.(*connlimit.Listener); ok {
			bounded.Prepare(server, isHealthCheck)
		}
		open := countConnections(server)
		next := server.Handler
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if ctx.Err() != nil {
				w.Header().Set("Connection", "close")
			}
			next.ServeHTTP(w, r)
		})
		return s.serveUntil(ctx, func() error {
			accept := server.Serve
			if server.TLSConfig != nil {
				accept = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
			}
			if err := accept(l); ctx.Err() == nil && !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}, func(ctx context.Context) error {
			l.Close()
			for end := time.Now().Add(linger); open.Load() > 0 && ctx.Err() == nil && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			return errors.Join(unlessClosed(server.Shutdown(ctx)), unlessClosed(server.Close()))
		})
	}
}

// unlessClosed drops the error of closing a listener twice: the server closes it once more if its goroutine that
// accepts connections has not noticed yet.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// countConnections returns the number of the server's open connections.
func countConnections(server *http.Server) *atomic.Int64 {
	var open atomic.Int64
	next := server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
		if next != nil {
			next(c, state)
		}
	}
	return &open
}

func isHealthCheck(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == "/healthcheck"
}

func (s *Server) newGRPC() (serve, error) {
	var more []grpc.ServerOption
	if s.tracing != nil {
		more = append(more, grpc.ChainUnaryInterceptor(s.tracing.Unary))
	}
	if s.stats != nil {
		times, err := s.metrics.RateLimitTimes()
		if err != nil {
			return nil, err
		}
		more = append(more, grpc.ChainUnaryInterceptor(times))
	}
	log := s.log.With("listener", "grpc")
	server, err := grpcapi.NewServer(grpcapi.Options{
		Decider: s.decider, Concluder: s.decider, Batch: s.decider, Health: s.health, Log: log,
		MaxConnectionAge: s.config.GRPC.MaxAge,
	}, more...)
	if err != nil {
		return nil, err
	}
	s.envoy.Register(server)
	for _, name := range slices.Concat(rls.Services, s.config.Envoy.Health) {
		s.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	if s.config.GRPC.Reflection {
		reflection.Register(server)
	}
	secure, err := s.grpcTLS()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, l net.Listener) error {
		l = connlimit.NewHTTP2(l, connlimit.HTTP2Options{
			MaxBytes: int64(s.config.GRPC.MaxBytes), TLS: secure,
			Refused: func(client net.Addr, err error) {
				log.Debug("TLS handshake failed", "client", client.String(), "error", err)
			},
			Reset: func(closed int, client netip.Prefix, bytes int64) {
				log.Warn("connections closed: requests in flight use too much memory", "closed", closed, "largest_client", client, "bytes", bytes, "max_bytes", s.config.GRPC.MaxBytes)
			},
		})
		return s.serveUntil(ctx, func() error {
			if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) { // stopped before it began
				return err
			}
			return nil
		}, func(ctx context.Context) error {
			defer context.AfterFunc(ctx, server.Stop)()
			server.GracefulStop()
			return ctx.Err()
		})
	}, nil
}

// serveUntil serves until the context ends, and then waits for requests in flight, up to the drain timeout.
func (s *Server) serveUntil(ctx context.Context, accept func() error, shutdown func(context.Context) error) error {
	served := make(chan error, 1)
	go func() { served <- accept() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx = context.WithoutCancel(ctx)
	if drain := s.config.Gateway.Timeouts.Drain; drain > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, drain)
		defer cancel()
	}
	err := shutdown(ctx)
	return errors.Join(err, <-served)
}

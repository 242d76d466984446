package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/http1"
	"github.com/penstock-io/penstock/internal/problem"
)

func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      routeTransport{},
		ModifyResponse: modifyResponse,
		ErrorHandler:   g.answerFailure,
		BufferPool:     new(buffers),
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// routeTransport sends each request to the route of its exchange.
type routeTransport struct{}

func (routeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req)
	if x.unread != nil {
		return x.route.readResponse(x, req)
	}
	return x.route.RoundTrip(req)
}

// forward handles the requests that the limiter allows.
func (g *Gateway) forward(rw http.ResponseWriter, req *http.Request) {
	x := exchangeBehind(rw)
	if x.route == nil {
		write(rw, problemOf(http.StatusNotFound, "No upstream is configured for this host and path."))
		return
	}
	x.passed = req.Body
	defer x.call.Close()
	if g.forwardCommon(rw, req, x) {
		return
	}
	g.proxy.ServeHTTP(rw, x.traceConnection(req))
}

// rewrite adds what the server is told in addition to the client's headers. It drops request trailers: they arrive
// after the limiter has decided.
func rewrite(r *httputil.ProxyRequest) {
	x, out := exchangeOf(r.In), r.Out
	out.URL.User, out.URL.Opaque = nil, ""
	out.Trailer = nil
	if x.route.rewriteHost {
		out.Host = ""
	}
	for _, f := range x.origin(r.In, nil) {
		out.Header[f.Name] = f.Lines
	}
}

// origin appends the headers in which the server is told where a request comes from. In the request they are those of
// a trusted peer: the others are already removed.
func (x *exchange) origin(in *http.Request, to []http1.Field) []http1.Field {
	scheme := "http"
	if in.TLS != nil {
		scheme = "https"
	}
	said := in.Header
	x.host[0], x.scheme[0] = in.Host, scheme
	to = append(to,
		http1.Field{Name: "X-Forwarded-Host", Lines: firstOf(said["X-Forwarded-Host"], x.host[:])},
		http1.Field{Name: "X-Forwarded-Proto", Lines: firstOf(said["X-Forwarded-Proto"], x.scheme[:])},
	)
	if !x.peer.IsValid() {
		return to
	}
	peer := x.peer.String()
	x.way[0] = joined(said["X-Forwarded-For"], peer)
	to = append(to, http1.Field{Name: "X-Forwarded-For", Lines: x.way[:]})
	if forwarded := said["Forwarded"]; forwarded != nil {
		if x.peer.Is6() {
			peer = `"[` + peer + `]"`
		}
		to = append(to, http1.Field{Name: "Forwarded", Lines: []string{joined(forwarded, "for="+peer+";proto="+scheme)}})
	}
	return to
}

func firstOf(lines, otherwise []string) []string {
	if len(lines) > 0 {
		return lines[:1]
	}
	return otherwise
}

func joined(lines []string, last string) string {
	if len(lines) == 0 {
		return last
	}
	return strings.Join(lines, ", ") + ", " + last
}

// modifyResponse keeps what the gateway tells the client: the request ID, and that the connection closes. An
// informational response before this one has cleared the headers.
func modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request)
	res.Header.Del("X-Request-Id")
	x.writer.Header()["X-Request-Id"] = x.id
	if x.last {
		x.writer.Header().Set("Connection", "close")
	}
	return nil
}

// statusClientLeft is never sent. nginx logs the same number.
const statusClientLeft = 499

// answerFailure answers a request that no server has answered.
func (g *Gateway) answerFailure(rw http.ResponseWriter, req *http.Request, err error) {
	g.answerFailureOf(exchangeOf(req), rw, err)
}

func (g *Gateway) answerFailureOf(x *exchange, rw http.ResponseWriter, err error) {
	if broken := x.body.Err(); broken != nil {
		write(rw, problemOfBody(broken))
		return
	}
	if errors.Is(x.Err(), context.Canceled) && !g.draining.Load() {
		if !x.reached.Load() {
			httplimit.Unserved(rw)
		}
		rw.WriteHeader(statusClientLeft) // for the limiter: the server may have done the work
		return
	}
	g.log.Debug("request failed", "request_id", x.id[0], "error", err)
	write(rw, problemOfServer(err))
}

func problemOfBody(err error) *problem.Document {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return bodyTooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemOf(http.StatusRequestTimeout, "The request body was sent too slowly.")
	}
	return problemOf(http.StatusBadRequest, "The request body could not be read.")
}

func problemOfServer(err error) *problem.Document {
	var none *errNoServer
	switch {
	case errors.As(err, &none):
		p := problemOf(http.StatusServiceUnavailable, "No healthy upstream server.")
		p.RetryAfter = max(int64((none.wait+time.Second-1)/time.Second), 1)
		return p
	case errors.Is(err, context.Canceled):
		return problemOf(http.StatusServiceUnavailable, "The gateway is shutting down.")
	case outOfFiles(err):
		return problemOf(http.StatusServiceUnavailable, "The gateway is overloaded.")
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return problemOf(http.StatusGatewayTimeout, "The upstream server did not respond in time.")
	}
	return problemOf(http.StatusBadGateway, "Cannot connect to the upstream server, or its response was invalid.")
}

// buffers are for copying responses.
type buffers struct{ pool sync.Pool }

type buffer [32 << 10]byte

func (b *buffers) Get() []byte {
	if got, ok := b.pool.Get().(*buffer); ok {
		return got[:]
	}
	return new(buffer)[:]
}

func (b *buffers) Put(p []byte) { b.pool.Put((*buffer)(p)) }

package gateway

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/internal/http1"
	"github.com/penstock-io/penstock/internal/reqbody"
)

// An exchange is what the gateway knows about one request and its response. It reaches the limiter along with the
// response writer. After that it is the context of the request, which requires a copy of the request; most denied
// requests do not need one.
type exchange struct {
	context.Context
	owns    bool       // it is the context of a request
	trusted bool       // the peer may say where the request comes from
	last    bool       // the connection should close after the request
	peer    netip.Addr // invalid if the connection has no such address
	name    string     // of the host, normalised
	route   *route     // nil: no route matches
	writer  pacedWriter
	body    reqbody.Body
	passed  io.ReadCloser // what the limiter passed on of the body, or all of it if the limiter has read some
	reached atomic.Bool   // a connection to a server was established: the server may have received the request

	common bool       // package http1 has parsed the request
	call   http1.Call // forwards a common request
	unread *server    // whose response to the call is left to net/http; nil: none
	first  uint32     // the turn of the request in its route's rotation; 0: not known

	id                []string  // header lines; the response keeps this one
	host, scheme, way [1]string // and the copied request keeps these
}

type exchangeKey struct{}

func (x *exchange) Value(key any) any {
	if key == (exchangeKey{}) {
		return x
	}
	return x.Context.Value(key)
}

func exchangeOf(req *http.Request) *exchange {
	return req.Context().Value(exchangeKey{}).(*exchange)
}

// exchangeBehind returns the exchange of a response that the limiter has wrapped.
func exchangeBehind(rw http.ResponseWriter) *exchange {
	for {
		if w, ok := rw.(*pacedWriter); ok {
			return w.exchange
		}
		rw = rw.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
}

// hasBegun reports whether any part of the body was sent to a server.
func (x *exchange) hasBegun() bool {
	if b, ok := x.passed.(interface{ Begun() bool }); ok {
		return b.Begun()
	}
	return x.body.Begun()
}

// copyRequest returns the exchange's own copy of its request.
func (x *exchange) copyRequest(req *http.Request) *http.Request {
	if x.owns {
		return req
	}
	x.owns = true
	return req.WithContext(x)
}

func (g *Gateway) begin(rw http.ResponseWriter, req *http.Request) *exchange {
	x := g.exchanges.Get().(*exchange)
	x.Context = req.Context()
	if address, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		x.peer = address.Addr().Unmap().WithZone("")
		x.trusted = g.reader.Trusts(x.peer)
	}
	_, x.common = req.Context().Value(http.ServerContextKey).(*http1.Server)
	x.id = []string{requestID(x.trusted, req)}
	x.writer = pacedWriter{
		ResponseWriter: rw,
		exchange:       x,
		patience:       g.timeouts.Write,
		tunnel:         g.timeouts.Tunnel,
		streams:        req.ProtoMajor == 2,
	}
	return x
}

// end recycles an exchange, unless something may still use it: a transport may still hold the request whose context
// it is.
func (g *Gateway) end(x *exchange) {
	if !x.owns {
		*x = exchange{call: x.call}
		g.exchanges.Put(x)
	}
}

// turn returns the turn of the request. All attempts to send it count as one.
func (x *exchange) turn() uint32 {
	if x.first == 0 {
		x.first = x.route.turn.Add(1)
	}
	return x.first
}

// traceConnection returns a copy of the request that records when a connection to a server is established. The exchange
// itself stays as it is: the limiter may be using it as a context.
func (x *exchange) traceConnection(req *http.Request) *http.Request {
	x.owns = true
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.reached.Store(true) }}
	return req.WithContext(httptrace.WithClientTrace(x, trace))
}

// limitTime bounds the duration of the exchange. The caller must call the returned function at the end.
func (x *exchange) limitTime(d time.Duration) context.CancelFunc {
	var cancel context.CancelFunc
	x.Context, cancel = context.WithTimeout(x.Context, d)
	return cancel
}

// requestID returns the request ID from a trusted peer, or a new one.
func requestID(trusted bool, req *http.Request) string {
	if ids := req.Header["X-Request-Id"]; trusted && len(ids) == 1 && isRequestID(ids[0]) {
		return ids[0]
	}
	return newRequestID()
}

// newRequestID returns 128 bits that are unique to the request. They are not secret: the client and the server see
// them.
func newRequestID() string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var id [26]byte
	for half := range 2 {
		bits := rand.Uint64()
		for i := range 13 {
			id[13*half+i] = letters[bits%32]
			bits /= 32
		}
	}
	return string(id[:])
}

// isRequestID reports whether an ID is safe to write to any log.
func isRequestID(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(s) > 0 && len(s) <= 128
}

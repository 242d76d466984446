package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/netip"
	"time"
)

// An exchange is what the gateway knows of one request and its response. It is the request's
// context, so that it passes through the limiter.
type exchange struct {
	context.Context

	peer    netip.Addr // invalid if the connection has no such address
	trusted bool       // the peer may say where the request comes from
	route   *route     // nil: there is none
	writer  pacedWriter
	body    pacedBody

	id, host, scheme, way [1]string // lines of headers
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

func (g *Gateway) begin(rw http.ResponseWriter, req *http.Request) *exchange {
	x := &exchange{Context: req.Context()}
	if address, err := netip.ParseAddrPort(req.RemoteAddr); err == nil {
		x.peer = address.Addr().Unmap().WithZone("")
		x.trusted = g.reader.Trusts(x.peer)
	}
	x.id[0] = requestID(x.trusted, req)
	x.writer = pacedWriter{
		ResponseWriter: rw,
		client:         *http.NewResponseController(rw),
		patience:       g.timeouts.Write,
		streams:        req.ProtoMajor == 2,
	}
	return x
}

// limitTime bounds the time of the exchange; 0 does not. The function it returns ends that.
func (x *exchange) limitTime(d time.Duration) context.CancelFunc {
	if d == 0 {
		return func() {}
	}
	var cancel context.CancelFunc
	x.Context, cancel = context.WithTimeout(x.Context, d)
	return cancel
}

// requestID is what a trusted peer calls the request, or a new name.
func requestID(trusted bool, req *http.Request) string {
	if ids := req.Header["X-Request-Id"]; trusted && len(ids) == 1 && isRequestID(ids[0]) {
		return ids[0]
	}
	return rand.Text()
}

// isRequestID tells names that can be written to any log.
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

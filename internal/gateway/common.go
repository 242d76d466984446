package gateway

import (
	"errors"
	"net/http"

	"github.com/penstock-io/penstock/internal/http1"
)

// A common request to a server without TLS is forwarded without httputil.ReverseProxy, if there is an idle connection
// to the server. The server gets the bytes that it would get otherwise. A common response is copied to the client.
// Everything else is left to the ReverseProxy: requests for which a connection must be dialled, those that must be sent
// again because the server closed an idle connection, and all other responses, of which nothing has been read.

// forwardCommon forwards a request. It returns false, and has not responded, if that is left to the ReverseProxy.
func (g *Gateway) forwardCommon(rw http.ResponseWriter, req *http.Request, x *exchange) bool {
	r := x.route
	if !x.common || !isCommonMethod(req.Method) {
		return false
	}
	s := r.servers[x.turn()%uint32(len(r.servers))]
	host := req.Host
	if r.rewriteHost {
		host = s.address.Host
	}
	if s.client == nil || s.out.Load() || !http1.IsHost(host) || !x.call.Begin(s.client) {
		return false
	}
	x.reached.Store(true)
	err := x.call.Send(req.Context(), req.Method, req.URL.RequestURI(), host, x.header(req))
	if errors.Is(err, http1.ErrNoResponse) {
		x.call.Close()
		return false
	}
	if err == nil && !x.call.IsCommon(req.Method) {
		x.unread = s
		return false
	}
	r.recordOutcome(s, x, x.call.Status, err)
	if err != nil {
		g.answerFailureOf(x, rw, err)
		return true
	}
	if err := x.respond(rw); err != nil {
		g.log.Debug("response is incomplete", "request_id", x.id[0], "error", err)
		panic(http.ErrAbortHandler) // the client sees that the rest is missing
	}
	return true
}

// isCommonMethod reports whether a request can be sent again.
func isCommonMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// header returns the header that the server gets.
func (x *exchange) header(req *http.Request) []http1.Field {
	fields := x.call.Fields()
	for name, lines := range req.Header {
		switch name {
		case "Connection", "Proxy-Authenticate", "Proxy-Authorization": // about this connection
		case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto": // see origin
		default:
			fields = append(fields, http1.Field{Name: name, Lines: lines})
		}
	}
	return x.origin(req, fields)
}

// respond copies the response.
func (x *exchange) respond(rw http.ResponseWriter) error {
	h, lines := rw.Header(), make([]string, len(x.call.Lines))
	for i, l := range x.call.Lines {
		switch same := h[l.Name]; {
		case l.Name == "X-Request-Id": // the client is told this gateway's
		case same != nil:
			h[l.Name] = append(same, l.Value)
		default:
			lines[i] = l.Value
			h[l.Name] = lines[i : i+1 : i+1]
		}
	}
	rw.WriteHeader(x.call.Status)
	return x.call.CopyBody(rw)
}

// readResponse lets net/http read a response that is not a common one.
func (r *route) readResponse(x *exchange, req *http.Request) (*http.Response, error) {
	s := x.unread
	x.unread = nil
	res, err := x.call.Response(req)
	r.recordOutcome(s, x, statusOf(res), err)
	return res, err
}

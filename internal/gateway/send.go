package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// An errNoServer says that the health checks of all servers of the route fail.
type errNoServer struct{ wait time.Duration }

func (e *errNoServer) Error() string {
	return fmt.Sprintf("no healthy upstream server; next attempt in %v", e.wait)
}

// RoundTrip sends a request to the next server in rotation, or to an ejected one if none is in rotation. It tries
// another server only if the request certainly reached none: no connection was established, and no part of a body was
// read.
func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req)
	first, n := x.turn(), uint32(len(r.servers))
	var failure error
	for i := range 2 * n {
		if i == n && failure != nil {
			break
		}
		s := r.servers[(first+i)%n]
		if i < n && !s.admit() || i >= n && !s.admitEjected() {
			continue
		}
		if failure != nil {
			req = req.Clone(req.Context()) // a transport may still use the one it was given
			if req.Body != nil {
				req.Body = x.passed // the one it was given is closed
			}
		}
		req.URL.Scheme, req.URL.Host = s.address.Scheme, s.address.Host
		res, err := r.send(s, req)
		r.recordOutcome(s, x, statusOf(res), err)
		if err == nil || x.hasBegun() || !isDialError(err) || req.Context().Err() != nil {
			return res, err
		}
		failure = err
	}
	if failure == nil {
		failure = r.noServer()
	}
	return nil, failure
}

// send sends a request to one server.
func (r *route) send(s *server, req *http.Request) (*http.Response, error) {
	if s.client != nil && s.client.Suits(req) {
		return s.client.RoundTrip(req)
	}
	return r.transport.RoundTrip(req)
}

// recordOutcome records what the outcome of a request says about the server. A response in time on an established
// connection is a success. A connection that cannot be established and a timeout are failures. Anything else can be
// caused by the client that chose the request, and says nothing about the server.
func (r *route) recordOutcome(s *server, x *exchange, status int, err error) {
	switch {
	case err == nil && r.count5xx && isServerError(status):
		r.failed(s, fmt.Errorf("status %d", status))
	case err == nil:
		s.succeeded()
	case x.Err() != nil, x.body.Err() != nil:
		s.left()
	case isDialError(err), isTimeout(err):
		r.failed(s, err)
	default:
		s.left()
	}
}

func statusOf(res *http.Response) int {
	if res == nil {
		return 0
	}
	return res.StatusCode
}

func (r *route) failed(s *server, err error) {
	if s.failed(err) {
		r.eject(s)
	}
}

// eject takes a server out of rotation if at least half of the servers remain. So nothing that makes requests fail,
// such as a client, can take out more than that, and never the only server.
func (r *route) eject(s *server) {
	r.ejecting.Lock()
	defer r.ejecting.Unlock()
	left := 0
	for _, other := range r.servers {
		if other != s && !other.out.Load() {
			left++
		}
	}
	if 2*left >= len(r.servers) && !s.out.Load() {
		s.eject()
	}
}

// isServerError reports whether a status is one that a server in trouble returns. 501 and 505 are about the request.
func isServerError(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// isDialError reports whether an error comes from connecting to a server, except for a lack of local files or ports.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && !outOfFiles(err) && !errors.Is(err, syscall.EADDRNOTAVAIL)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

func outOfFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

func (r *route) noServer() error {
	wait := r.servers[0].wait()
	for _, s := range r.servers[1:] {
		wait = min(wait, s.wait())
	}
	return &errNoServer{wait}
}

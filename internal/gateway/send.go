package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// errNoServer: all servers of the route are out.
type errNoServer struct{ wait time.Duration }

func (e *errNoServer) Error() string {
	return fmt.Sprintf("no server works; the next try is in %v", e.wait)
}

// RoundTrip sends a request to the route's next server that works. Another one gets it only if it
// surely reached none: no connection came about, and nothing of a body was read.
func (r *route) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req)
	first := r.turn.Add(1)
	var failure error
	for i := range uint32(len(r.servers)) {
		s := r.servers[(first+i)%uint32(len(r.servers))]
		if !s.admit() {
			continue
		}
		if failure != nil {
			req = req.Clone(req.Context()) // a transport may not be done with the one it was given
		}
		req.URL.Scheme, req.URL.Host = s.address.Scheme, s.address.Host
		res, err := r.transport.RoundTrip(req)
		switch {
		case err == nil:
			s.succeeded()
			return res, nil
		case req.Context().Err() != nil, x.body.broken.Load() != nil, outOfFiles(err):
			s.left() // it was the client, or the gateway
			return nil, err
		}
		s.failed(err)
		if failure = err; req.Body != nil || !neverSent(err) {
			return nil, err
		}
	}
	if failure == nil {
		failure = r.noServer()
	}
	return nil, failure
}

func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
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

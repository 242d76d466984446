//go:build linux

package survive

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// An unsentBody is a request whose body does not arrive.
type unsentBody struct {
	listener, text string
	status         int
}

// unsentBodies are answered before they have ended, at every listener.
func unsentBodies() (all []unsentBody) {
	for _, framing := range []string{
		"Content-Length: 9\r\n\r\n", "Content-Length: 9\r\n\r\nhalf", "Content-Length: 200000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\nha",
		"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n", "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	} {
		for _, b := range []unsentBody{
			{"gateway", "/denied", http.StatusTooManyRequests},
			{"gateway", "/allowed?%", http.StatusBadRequest},
			{"gateway", "/allowed", http.StatusRequestTimeout},
			{"gateway", "/ignored", http.StatusNoContent},
			{"gateway", "/dead", http.StatusBadGateway},
			{"http", "/nowhere", http.StatusNotFound},
			{"http", "/healthz", http.StatusMethodNotAllowed},
			{"admin", "/nowhere", 0},
			{"admin", "/healthz", http.StatusMethodNotAllowed},
			{"admin", "/v1/rules/validate", http.StatusUnauthorized},
		} {
			b.text = "POST " + b.text + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + framing
			all = append(all, b)
		}
		for _, path := range []string{"/v1/check", "/v1/reserve", "/json"} {
			all = append(all, unsentBody{"http", "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" + framing, 0})
		}
	}
	return all
}

// If a response is sent before the request's body has arrived, the connection is closed.
func TestUnsentBodiesHoldNoConnection(t *testing.T) {
	t.Parallel()
	const each = 5
	upstream := newUpstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/ignored" {
			io.Copy(io.Discard, req.Body)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	n := start(t, setup{
		rules:  "rules: [{name: denied, match: {path: /denied}, key: [], limits: [{rate: 1/year, algorithm: fixed_window}]}]",
		config: fmt.Sprintf("gateway: {timeouts: {read_header: 30s, idle: 2s, body: 2s}}\nupstreams: [{url: %q}, {path: /dead, url: %q}]\n", upstream, newAbsentUpstream(t).url),
	})
	if status := n.status("gateway", "/denied"); status != http.StatusOK {
		t.Fatalf("the first request is answered with %d", status)
	}
	var all sync.WaitGroup
	for _, b := range unsentBodies() {
		for range each {
			all.Go(func() {
				if l := dial(t, n.addresses[b.listener]); l != nil {
					l.isClosedAfter(t, b)
				}
			})
		}
	}
	all.Wait()
	n.isWell(maxMiB)
}

// isClosedAfter checks that a request is answered and its connection closed, while the client stays.
func (l *line) isClosedAfter(t *testing.T, b unsentBody) {
	defer l.Close()
	io.WriteString(l, b.text)
	r, err := l.read()
	for err == nil && r.status == http.StatusContinue {
		r, err = l.read()
	}
	if err != nil || b.status != 0 && r.status != b.status {
		t.Errorf("%s %.200q: status %d, %v; want %d", b.listener, b.text, r.status, err, b.status)
		return
	}
	_, err = l.from.ReadByte()
	var network net.Error
	if err == nil || errors.As(err, &network) && network.Timeout() {
		t.Errorf("%s %.200q: the connection is still open, %v", b.listener, b.text, err)
	}
}

// The server does not wait for a body that arrives byte by byte.
func TestTrickledBodies(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) })
	n := start(t, setup{config: fmt.Sprintf("gateway: {timeouts: {body: 2s}}\nupstreams: [{url: %q}]\n", upstream)})
	var all sync.WaitGroup
	for listener, text := range map[string]string{
		"gateway": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n",
		"http":    "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
	} {
		for range 20 {
			all.Go(func() {
				l := dial(t, n.addresses[listener])
				if l == nil {
					return
				}
				io.WriteString(l, text)
				answered := make(chan struct{})
				go func() {
					defer close(answered)
					l.isClosedAfter(t, unsentBody{listener: listener})
				}()
				for {
					select {
					case <-answered:
						return
					case <-time.After(200 * time.Millisecond):
						io.WriteString(l, " ")
					}
				}
			})
		}
	}
	all.Wait()
	n.isWell(maxMiB)
}

//go:build linux

package survive

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// attacks are requests by which a client may try to make the gateway blame the server.
var attacks = map[string]func(*testing.T, *node){
	"invalid method over HTTP/2": func(t *testing.T, n *node) {
		for _, method := range []string{"G ET", "GET\t", "GET\r\nX: y", "G(ET)", "G\x7fT", "GÉT"} {
			header := fields{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}}
			for _, r := range (http2Request{header: header}).send(t, n.addresses["gateway"]) {
				if r.status != http.StatusBadRequest {
					t.Errorf("method %q: status %d", method, r.status)
				}
			}
		}
	},
	"invalid method over HTTP/1.1": func(t *testing.T, n *node) {
		for _, method := range []string{"G(ET)", "G\x7fT", "GÉT", "\"GET\""} {
			for _, r := range converse(t, n.addresses["gateway"], method+" / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") {
				if r.status != http.StatusBadRequest {
					t.Errorf("method %q: status %d", method, r.status)
				}
			}
		}
	},
	"closed connection":  asksFor(4, "/close", http.StatusBadGateway),
	"reset connection":   asksFor(4, "/reset", http.StatusBadGateway),
	"malformed response": asksFor(4, "/garbage", http.StatusBadGateway),
	"half a response":    asksFor(4, "/half", http.StatusBadGateway),
	slowURL:              asksFor(20, "/slow", http.StatusGatewayTimeout),
	"server error":       asksFor(4, "/500", http.StatusInternalServerError),
}

// slowURL is the attack that waits for a timeout: it sends more at once and less often.
const slowURL = "slow URL"

func asksFor(count int, path string, status int) func(*testing.T, *node) {
	return func(t *testing.T, n *node) {
		var all sync.WaitGroup
		for range count {
			all.Go(func() {
				if got := n.status("gateway", path); got != status {
					t.Errorf("%s: status %d, want %d", path, got, status)
				}
			})
		}
		all.Wait()
	}
}

// fragileUpstream answers as the path says.
func fragileUpstream(t *testing.T) string {
	return newUpstream(t, func(w http.ResponseWriter, req *http.Request) {
		hijack := func(text string) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			io.WriteString(conn, text)
			if text == "" {
				conn.(*net.TCPConn).SetLinger(0)
			}
		}
		switch req.URL.Path {
		case "/close":
			panic(http.ErrAbortHandler)
		case "/reset":
			hijack("")
		case "/garbage":
			hijack("not HTTP\r\n\r\n")
		case "/half":
			hijack("HTTP/1.1 200 OK\r\nContent-Le")
		case "/slow":
			<-req.Context().Done()
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
}

// No client can take an upstream away from others, whatever it asks for and however often: neither
// the only server of an upstream nor all of several.
func TestNoClientSwitchesAnUpstreamOff(t *testing.T) {
	t.Parallel()
	for name, servers := range map[string]int{"one server": 1, "three servers": 3} {
		t.Run(name, func(t *testing.T) {
			urls := make([]string, servers)
			for i := range urls {
				urls[i] = fmt.Sprintf("%q", fragileUpstream(t))
			}
			n := start(t, setup{config: fmt.Sprintf("gateway: {h2c: true, timeouts: {response_header: 500ms}}\nupstreams: [{urls: [%s], health: {count_5xx: true}}]\n", strings.Join(urls, ", "))})
			for name, attack := range attacks {
				rounds := 10
				if name == slowURL {
					rounds = 2
				}
				t.Run(name, func(t *testing.T) {
					for range rounds {
						attack(t, n)
						for range servers {
							n.isServed(t, "/")
						}
					}
				})
			}
			n.isWell(maxMiB)
		})
	}
}

// isServed checks that a request is answered by an upstream. On a busy machine that can take longer
// than the upstream has, which must not have consequences for the next request.
func (n *node) isServed(t *testing.T, path string) {
	t.Helper()
	status := n.status("gateway", path)
	for end := time.Now().Add(patience); status == http.StatusGatewayTimeout && time.Now().Before(end); {
		status = n.status("gateway", path)
	}
	if status != http.StatusOK {
		t.Errorf("an innocent request for %s is answered with %d", path, status)
	}
}

// A server that swallows connection attempts holds each request for the dial timeout. Not even HTTP/2
// clients, with many requests on each connection, exhaust the files that others need.
func TestBlackHoledServer(t *testing.T) {
	t.Parallel()
	hole := newBlackHole(t)
	healthy := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	n := start(t, setup{files: openFiles, config: fmt.Sprintf("gateway: {h2c: true, timeouts: {dial: 1s}}\nupstreams: [{path: /hole, url: %q}, {url: %q}]\n", hole, healthy)})
	stop := n.keepsServing("/well")
	var all sync.WaitGroup
	for range 20 {
		conn := dial(t, n.addresses["gateway"])
		if conn == nil {
			t.Fatal("no connection")
		}
		all.Go(func() { askOverHTTP2(t, conn, "/hole", 100) })
	}
	all.Wait()
	stop()
	n.isWell(maxMiB)
}

// askOverHTTP2 sends requests on one connection, as streams of the same time, and reads the answers.
func askOverHTTP2(t *testing.T, l *line, path string, requests int) {
	l.SetDeadline(time.Now().Add(2 * patience))
	io.WriteString(l, http2.ClientPreface)
	framer := http2.NewFramer(l, l.from)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.WriteSettings()
	header := fields{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}}
	for i := range requests {
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: header.encode(), EndHeaders: true, EndStream: true})
	}
	for answered := 0; answered < requests; {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Errorf("%s: %d of %d requests were answered: %v", path, answered, requests, err)
			return
		}
		if f, ok := frame.(*http2.MetaHeadersFrame); ok {
			answered++
			if status := f.PseudoValue("status"); status != "504" {
				t.Errorf("%s: status %s", path, status)
			}
		}
	}
}

// newBlackHole returns the URL of a listener whose backlog is full: the kernel drops further
// attempts to connect.
func newBlackHole(t *testing.T) string {
	t.Helper()
	a := newAbsentUpstream(t)
	a.backlog(t, 0)
	for {
		conn, err := net.DialTimeout("tcp", a.url[len("http://"):], 500*time.Millisecond)
		if err != nil {
			return a.url
		}
		t.Cleanup(func() { conn.Close() })
	}
}

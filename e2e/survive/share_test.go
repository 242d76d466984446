//go:build linux

package survive

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// stranger is an address that innocent clients do not have.
const stranger = "127.0.0.2"

// dialFrom connects from an address of this machine. It returns nil if it cannot.
func dialFrom(t *testing.T, source, address string) *line {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: patience}
	conn, err := dialer.Dial("tcp", address)
	if err != nil {
		return nil
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(2 * patience))
	return &line{conn, newBuffer(conn)}
}

const upgrade = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n"

// socketUpstream accepts WebSockets and never sends anything on them.
func socketUpstream(t *testing.T) string {
	return newUpstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") == "" {
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(io.Discard, conn)
	})
}

// answersAt reports whether a listener answers a client that comes now.
func (n *node) answersAt(listener string) bool {
	if listener != "grpc" {
		path := map[string]string{"gateway": "/", "http": "/healthz", "admin": "/healthz"}[listener]
		n.client.CloseIdleConnections()
		return n.status(listener, path) == http.StatusOK
	}
	l := dialFrom(n.t, "127.0.0.1", n.addresses[listener])
	if l == nil {
		return false
	}
	defer l.Close()
	io.WriteString(l, http2.ClientPreface)
	framer := http2.NewFramer(l, l.from)
	framer.WriteSettings()
	_, err := framer.ReadFrame()
	return err == nil
}

// One address cannot hold all connections of a listener, whatever it does with those it gets: others
// are served at every listener.
func TestOneAddressDoesNotOccupyAListener(t *testing.T) {
	t.Parallel()
	const connections = 150 // more than any listener takes
	n := start(t, setup{files: openFiles, share: 50, config: fmt.Sprintf("gateway: {timeouts: {read_header: 120s, idle: 120s}}\nupstreams: [{url: %q}]\n", socketUpstream(t))})
	for listener, texts := range map[string][]string{
		"gateway": {"", upgrade, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"http":    {"", "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
		"grpc":    {"", http2.ClientPreface},
		"admin":   {"", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
	} {
		for _, text := range texts {
			var dialing, reading sync.WaitGroup
			var lines [connections]*line
			for i := range lines {
				dialing.Go(func() {
					l := dialFrom(t, stranger, n.addresses[listener])
					if l == nil {
						return
					}
					lines[i] = l
					io.WriteString(l, text)
					reading.Go(func() { io.Copy(io.Discard, l.from) })
				})
			}
			dialing.Wait()
			eventually(t, fmt.Sprintf("%s answers beside %d connections that sent %.20q", listener, connections, text), func() bool { return n.answersAt(listener) })
			for _, l := range lines {
				if l != nil {
					l.Close()
				}
			}
			reading.Wait()
		}
	}
	n.isWell(maxMiB)
}

// Idle connections are closed to make room for clients with requests, even from the same
// address.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	const connections = 150
	n := start(t, setup{files: openFiles, config: fmt.Sprintf("gateway: {timeouts: {idle: 120s}}\nupstreams: [{url: %q}]\n", socketUpstream(t))})
	for listener, path := range map[string]string{"gateway": "/", "http": "/healthz", "admin": "/healthz"} {
		for i := range connections {
			l := dial(t, n.addresses[listener])
			if l == nil {
				t.Fatal("no connection")
			}
			if r, err := l.ask("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil || r.status != http.StatusOK {
				t.Fatalf("%s: connection %d: status %d, %v", listener, i, r.status, err)
			}
		}
	}
	for i := range connections {
		if _, err := n.envoy().ShouldRateLimit(t.Context(), descriptors("u")); err != nil {
			t.Fatalf("grpc: connection %d: %v", i, err)
		}
	}
	n.isWell(maxMiB)
}

// occupy keeps connections from an address open on which requests never end, and connects again when
// they are closed.
func (n *node) occupy(source, listener, text string, connections int) (stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				if l := dialFrom(n.t, source, n.addresses[listener]); l != nil {
					end := context.AfterFunc(ctx, func() { l.Close() })
					io.WriteString(l, text)
					io.Copy(io.Discard, l.from)
					end()
					l.Close()
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// Health checks are answered by a listener whose connections are all in use.
func TestHealthChecksAtAFullListener(t *testing.T) {
	t.Parallel()
	const connections = openFiles / 8
	const http1 = " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
	for listener, unfinished := range map[string]string{
		"http": "POST /v1/check" + http1, "admin": "POST /v1/session" + http1, "grpc": unfinishedRPC(),
	} {
		t.Run(listener, func(t *testing.T) {
			n := start(t, setup{files: openFiles, share: 50, config: noUpstream})
			before := n.files()
			for _, source := range []string{stranger, "127.0.0.3"} {
				defer n.occupy(source, listener, unfinished, connections)()
			}
			eventually(t, "it is full", func() bool { return n.files() >= before+connections })
			for i := range 30 {
				if !n.isHealthyAt(listener) {
					t.Errorf("health check %d is not answered", i)
				}
			}
			n.isWell(maxMiB)
		})
	}
}

// isHealthyAt reports what a listener answers to a health check on a connection of its own.
func (n *node) isHealthyAt(listener string) bool {
	if listener != "grpc" {
		n.client.CloseIdleConnections()
		return n.status(listener, "/healthz") == http.StatusOK && (listener != "admin" || n.status(listener, "/readyz") == http.StatusOK)
	}
	conn := n.dialGRPC()
	defer conn.Close()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	r, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	return err == nil && r.Status == grpc_health_v1.HealthCheckResponse_SERVING
}

func unfinishedRPC() string {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&b, nil)
	framer.WriteSettings()
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: fields{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "a"}, {":path", rlsMethod}, {"content-type", "application/grpc"},
	}.encode()})
	return b.String()
}

// A proxy that carries the requests of all clients is not held to the share of one.
func TestTrustedProxyHasAllConnections(t *testing.T) {
	t.Parallel()
	const connections = 50 // of 64; an address has 32
	n := start(t, setup{files: openFiles, share: 50, config: fmt.Sprintf("trusted_proxies: [%s]\nupstreams: [{url: %q}]\n", stranger, socketUpstream(t))})
	for i := range connections {
		l := dialFrom(t, stranger, n.addresses["gateway"])
		if l == nil {
			t.Fatal("no connection")
		}
		io.WriteString(l, upgrade)
		if res, err := http.ReadResponse(l.from, nil); err != nil || res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("WebSocket %d: %v, %v", i, res, err)
		}
	}
	n.isWell(maxMiB)
}

// A silent WebSocket is closed.
func TestSilentTunnelsAreClosed(t *testing.T) {
	t.Parallel()
	n := start(t, setup{config: fmt.Sprintf("gateway: {timeouts: {tunnel: 1s}}\nupstreams: [{url: %q}]\n", socketUpstream(t))})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if l := dial(t, n.addresses["gateway"]); l != nil {
				l.isClosedAfter(t, unsentBody{listener: "gateway", text: upgrade, status: http.StatusSwitchingProtocols})
			}
		})
	}
	all.Wait()
	n.isWell(maxMiB)
}

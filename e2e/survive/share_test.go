//go:build linux

package survive

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
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

// socketUpstream takes WebSockets and never says anything on them.
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
	const connections = 150 // more than any listener takes
	n := start(t, setup{files: openFiles, share: 50, config: fmt.Sprintf("gateway: {timeouts: {read_header: 120s, idle: 120s}}\nupstreams: [{url: %q}]\n", socketUpstream(t))})
	for listener, texts := range map[string][]string{
		"gateway": {"", upgrade, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
		"http":    {"", "POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
		"grpc":    {"", http2.ClientPreface},
		"admin":   {"", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"},
	} {
		for _, text := range texts {
			var all sync.WaitGroup
			for range connections {
				all.Go(func() {
					if l := dialFrom(t, stranger, n.addresses[listener]); l != nil {
						io.WriteString(l, text)
						all.Go(func() { l.SetDeadline(time.Now().Add(2 * time.Second)); io.Copy(io.Discard, l.from) })
					}
				})
			}
			all.Wait()
			eventually(t, fmt.Sprintf("%s answers beside %d connections that sent %.20q", listener, connections, text), func() bool { return n.answersAt(listener) })
		}
	}
	n.isWell(maxMiB)
}

// Idle connections are closed for those who have something to ask, also if they are of the same
// address.
func TestIdleConnectionsMakeRoom(t *testing.T) {
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
	n.isWell(maxMiB)
}

// A proxy that carries the requests of all clients is not held to the share of one.
func TestTrustedProxyHasAllConnections(t *testing.T) {
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

// A WebSocket on which nobody says anything is closed.
func TestSilentTunnelsAreClosed(t *testing.T) {
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

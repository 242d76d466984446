//go:build linux

package survive

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clients that send heads and bodies slowly are cut off, all of them, and others are served
// meanwhile.
func TestSlowSenders(t *testing.T) {
	t.Parallel()
	const each = 200
	upstream := newUpstream(t, func(_ http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) })
	n := start(t, setup{config: fmt.Sprintf("gateway: {timeouts: {read_header: 5s, body: 1s}}\nupstreams: [{url: %q}]\n", upstream)})
	stop := n.keepsServing("/")
	var all sync.WaitGroup
	for range each {
		for _, slow := range []func(*testing.T, *line){slowHead, slowBody, slowChunks} {
			all.Go(func() { // each says something as soon as it is connected
				if l := dial(t, n.addresses["gateway"]); l != nil {
					slow(t, l)
				}
			})
		}
	}
	all.Wait()
	stop()
	n.isWell(maxMiB)
}

// Clients that do not read their responses are cut off, and so is the upstream's work for them. The
// memory that they make the process hold is bounded.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const readers = 50
	var begun, ended atomic.Int32
	upstream := newUpstream(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/endless" {
			return
		}
		begun.Add(1)
		defer ended.Add(1)
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	n := start(t, setup{config: fmt.Sprintf("gateway: {timeouts: {write: 1s}}\nupstreams: [{url: %q}]\n", upstream)})
	for range readers {
		if l := dial(t, n.addresses["gateway"]); l != nil {
			l.Conn.(*net.TCPConn).SetReadBuffer(4096)
			io.WriteString(l, "GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
		}
	}
	eventually(t, "all endless responses are given up", func() bool { return begun.Load() == readers && ended.Load() == readers })
	eventually(t, "others are served", func() bool { return n.status("gateway", "/") == 200 })
	n.isWell(maxMiB)
}

// slowHead sends a head that never ends, a byte at a time.
func slowHead(t *testing.T, l *line) {
	io.WriteString(l, "GET / HTTP/1.1\r\nHost: a\r\nX: ")
	trickle(l)
	if r, err := l.read(); err == nil && r.status != http.StatusRequestTimeout && r.status != http.StatusBadRequest {
		t.Errorf("a slow head is answered with %d", r.status)
	}
}

// slowBody announces a body and sends half of it.
func slowBody(t *testing.T, l *line) {
	io.WriteString(l, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
	if r, err := l.read(); err != nil || r.status != http.StatusRequestTimeout || !r.closes {
		t.Errorf("a slow body is answered with %d, %v", r.status, err)
	}
}

func slowChunks(t *testing.T, l *line) {
	io.WriteString(l, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
	if r, err := l.read(); err != nil || r.status != http.StatusRequestTimeout || !r.closes {
		t.Errorf("a slow chunk is answered with %d, %v", r.status, err)
	}
}

// trickle sends a byte now and then until that fails.
func trickle(l *line) {
	for {
		if _, err := io.WriteString(l, "x"); err != nil {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

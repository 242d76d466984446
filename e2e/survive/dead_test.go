//go:build linux

package survive

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A connFailure is what an upstream does to a connection instead of answering.
type connFailure struct {
	name   string
	answer func(*net.TCPConn)
}

var waysToDie = []connFailure{
	{"reset", func(c *net.TCPConn) { c.SetLinger(0) }},
	{"closed", func(c *net.TCPConn) { hear(c) }},
	{"half", says("HTTP/1.1 200 OK\r\nContent-Le")},
	{"garbage", says("\x00\x01 not HTTP at all\r\n\r\n")},
	{"framing", says("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")},
	{"flood", func(c *net.TCPConn) { // a header without end
		io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
		for piece := strings.Repeat("x", 32<<10); ; {
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
	}},
}

// hear reads a request, or the beginning of it.
func hear(c *net.TCPConn) { c.Read(make([]byte, 4096)) }

func says(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		hear(c)
		io.WriteString(c, text)
	}
}

func saysNothing(c *net.TCPConn) { io.Copy(io.Discard, c) }

// Whatever an upstream does instead of answering, its clients get a readable problem, clients of others are not
// affected, and it gets requests again once it is back.
func TestDeadUpstreams(t *testing.T) {
	t.Parallel()
	healthy := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") })
	silent := newDyingUpstream(t, saysNothing)
	absent := newAbsentUpstream(t)
	config := fmt.Sprintf("upstreams:\n  - {path: /well, url: %q}\n  - {path: /silent, url: %q}\n  - {path: /absent, url: %q}\n", healthy, silent.url(), absent.url)
	names := []string{"absent"}
	var dying []*dyingUpstream
	for _, way := range waysToDie {
		d := newDyingUpstream(t, way.answer)
		config += fmt.Sprintf("  - {path: /%s, url: %q}\n", way.name, d.url())
		names, dying = append(names, way.name), append(dying, d)
	}
	n := start(t, setup{config: config})
	for range 50 { // that wait forever
		if l := dial(t, n.addresses["gateway"]); l != nil {
			io.WriteString(l, "GET /silent HTTP/1.1\r\nHost: a\r\n\r\n")
		}
	}
	stop := n.keepsServing("/well")
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { n.failsAs("/"+name, http.StatusBadGateway) })
	}
	all.Wait()

	absent.listen(t)
	for _, d := range dying {
		d.well.Store(true)
	}
	for _, name := range names {
		eventually(t, name+" is back", func() bool { return n.status("gateway", "/"+name) == 200 })
	}
	stop()
	n.isWell(maxMiB)
}

// An upstream that accepts requests and never answers times out.
func TestSilentUpstream(t *testing.T) {
	t.Parallel()
	silent := newDyingUpstream(t, saysNothing)
	n := start(t, setup{config: fmt.Sprintf("gateway: {timeouts: {response_header: 50ms}}\nupstreams: [{url: %q}]\n", silent.url())})
	n.failsAs("/", http.StatusGatewayTimeout)
	silent.well.Store(true)
	eventually(t, "it is back", func() bool { return n.status("gateway", "/") == 200 })
	n.isWell(maxMiB)
}

// keepsServing asks for a path, which must always be answered, until the function it returns is
// called.
func (n *node) keepsServing(path string) (stop func()) {
	ended := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if status := n.status("gateway", path); status != 200 {
				n.t.Errorf("%s is answered with %d", path, status)
			}
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(ended)
		asking.Wait()
	})
	n.t.Cleanup(stop)
	return stop
}

// failsAs asks an upstream with a single server that fails. It is never ejected: each request is
// answered with the status of its own failure.
func (n *node) failsAs(path string, status int) {
	const requests = 30
	l := dial(n.t, n.addresses["gateway"])
	if l == nil {
		return
	}
	for i := range requests {
		r, err := l.ask("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if err != nil {
			n.t.Errorf("%s: %v", path, err)
			return
		}
		if r.status != status {
			n.t.Errorf("%s: request %d: status %d, want %d: %s", path, i, r.status, status, r.body)
		}
		if !r.isProblem() {
			n.t.Errorf("%s: no problem to read: %s %s", path, r.header, r.body)
		}
	}
}

// A truncated response must not look complete to the client.
func TestHalfResponseIsNoResponse(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			dying := newDyingUpstream(t, says(text))
			n := start(t, setup{config: fmt.Sprintf("upstreams: [{url: %q}]\n", dying.url())})
			res, err := n.client.Get(n.url("gateway", "/"))
			if err != nil {
				return // cut off so early that the client has seen nothing
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err == nil && res.StatusCode == 200 {
				t.Errorf("the client takes %q for the whole response", body)
			}
			n.isWell(maxMiB)
		})
	}
}

// A dyingUpstream treats its connections as configured, until it is healthy.
type dyingUpstream struct {
	net.Listener
	well atomic.Bool
}

func newDyingUpstream(t *testing.T, answer func(*net.TCPConn)) *dyingUpstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &dyingUpstream{Listener: l}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				if d.well.Load() {
					says("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")(conn.(*net.TCPConn))
				} else {
					answer(conn.(*net.TCPConn))
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return d
}

func (d *dyingUpstream) url() string { return "http://" + d.Addr().String() }

// An absentUpstream has an address that nobody else can take, and does not listen there yet.
type absentUpstream struct {
	socket *os.File
	url    string
}

func newAbsentUpstream(t *testing.T) *absentUpstream {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := &absentUpstream{socket: os.NewFile(uintptr(fd), "absent upstream")}
	t.Cleanup(func() { a.socket.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	a.url = fmt.Sprintf("http://127.0.0.1:%d", address.(*syscall.SockaddrInet4).Port)
	return a
}

// backlog lets clients connect without accepting them.
func (a *absentUpstream) backlog(t *testing.T, n int) {
	t.Helper()
	if err := syscall.Listen(int(a.socket.Fd()), n); err != nil {
		t.Fatal(err)
	}
}

// listen answers from now on.
func (a *absentUpstream) listen(t *testing.T) {
	t.Helper()
	a.backlog(t, syscall.SOMAXCONN)
	l, err := net.FileListener(a.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

func newUpstream(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: serve}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String()
}

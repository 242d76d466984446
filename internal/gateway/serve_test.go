package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Clients that keep reusing connections, without checking whether they are still open, get an answer to every request
// they send.
func TestDrainUnderLoad(t *testing.T) {
	const clients, before = 16, 20
	var served atomic.Int64
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) {
		served.Add(1)
		io.WriteString(rw, "served")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, setting{rules: everyCall, listen: l, options: Options{Upstreams: upstreams(server), Timeouts: Timeouts{Linger: patience, Drain: 2 * patience}}})
	var warm, ended sync.WaitGroup
	warm.Add(clients)
	var answered atomic.Int64
	for range clients {
		conn, from := s.dialRaw()
		ended.Go(func() {
			for i := 0; ; i++ {
				if i == before {
					warm.Done()
				}
				last, err := askOn(conn, from)
				if err != nil {
					t.Errorf("request %d of a connection: %v", i, err)
				}
				if answered.Add(1); last || err != nil {
					return
				}
			}
		})
	}
	warm.Wait()
	s.drain()
	ended.Wait()
	if err := s.wait(); err != nil {
		t.Error(err)
	}
	if served.Load() != answered.Load() || served.Load() < clients*before {
		t.Errorf("%d served, %d answered", served.Load(), answered.Load())
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was still open: %v", err)
	}
}

// askOn sends a request on a connection, and reports whether it was the last one.
func askOn(conn net.Conn, from *bufio.Reader) (last bool, err error) {
	conn.SetDeadline(time.Now().Add(patience)) // for this request, however many came before
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return false, err
	}
	res, err := http.ReadResponse(from, nil)
	if err != nil {
		return false, err
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != 200 || string(body) != "served") {
		err = fmt.Errorf("%d %q", res.StatusCode, body)
	}
	return res.Close, err
}

func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	slow := func(rw http.ResponseWriter, req *http.Request) {
		time.Sleep(10 * time.Second)
		io.WriteString(rw, "served")
	}
	held := "rules: [{name: slow, match: {path: /held}, key: [], limits: [{rate: 1/10s, queue: 100, algorithm: leaky_bucket}]}]"
	inBubble(t, setting{rules: held}, slow, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		var ended sync.WaitGroup
		for _, path := range []string{"/slow", "/held", "/held"} { // the last has 20 s to go
			ended.Go(func() {
				if got := get(t, client, "http://gateway.test"+path); got.body != "served" {
					t.Errorf("%s: %d %q", path, got.StatusCode, got.body)
				}
			})
			synctest.Wait()
		}
		b.drain()
		ended.Wait()
		if err := b.wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestDrainEndsWhatDoesNot(t *testing.T) {
	never := func(rw http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
	set := setting{options: Options{Timeouts: Timeouts{Drain: 5 * time.Second, ResponseHeader: -1}}}
	inBubble(t, set, never, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		begun := time.Now()
		var ended sync.WaitGroup
		ended.Go(func() {
			res, err := client.Get("http://gateway.test/")
			if err == nil {
				res.Body.Close()
			}
		})
		synctest.Wait()
		b.drain()
		if err := b.wait(); err == nil || !strings.Contains(err.Error(), "1 requests had not ended after 5s") {
			t.Errorf("error %v", err)
		}
		ended.Wait()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestDrainClosesWebSockets(t *testing.T) {
	inBubble(t, setting{}, echo, func(t *testing.T, b *memoryGateway) {
		conn, from := b.dialRaw()
		upgrade(t, conn, from)
		begun := time.Now()
		b.drain()
		if _, err := from.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the WebSocket is still open: %v", err)
		}
		if err := b.wait(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("took %v, though nothing else was under way", took)
		}
	})
}

func TestServesOneListener(t *testing.T) {
	s := start(t, setting{options: Options{Upstreams: upstreams("http://127.0.0.1:1")}})
	eventually(t, "it serves", s.serving.Load)
	if err := s.Serve(t.Context(), nil); err == nil {
		t.Error("a second listener was taken")
	}
}

// brokenListener fails a few times before it works.
type brokenListener struct {
	net.Listener
	fails atomic.Int64
	err   error
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if l.fails.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", l.err)}
	}
	return l.Listener.Accept()
}

func TestTooManyOpenFilesPass(t *testing.T) {
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS} {
		t.Run(err.Error(), func(t *testing.T) {
			inner, listenErr := net.Listen("tcp", "127.0.0.1:0")
			if listenErr != nil {
				t.Fatal(listenErr)
			}
			l := &brokenListener{Listener: inner, err: err}
			l.fails.Store(5)
			server := newServer(t, func(http.ResponseWriter, *http.Request) {})
			s := start(t, setting{listen: l, options: Options{Upstreams: upstreams(server)}})
			if got := get(t, newClient(t), s.url("/")); got.StatusCode != http.StatusOK || l.fails.Load() >= 0 {
				t.Errorf("status %d", got.StatusCode)
			}
		})
	}
}

func TestClosedListenerIsTold(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, setting{listen: l, options: Options{Upstreams: upstreams("http://127.0.0.1:1")}})
	l.Close()
	if err := s.wait(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// With a bounded number of connections, the gateway serves all clients in turn.
func TestMoreClientsThanConnections(t *testing.T) {
	const clients = 40
	server := newServer(t, func(rw http.ResponseWriter, req *http.Request) { io.WriteString(rw, "served") })
	s := start(t, setting{options: Options{Upstreams: upstreams(server), Limits: Limits{MaxConnections: 4, ClientShare: 100}}})
	var ended sync.WaitGroup
	for range clients {
		ended.Go(func() {
			conn, from := s.dialRaw()
			if _, err := askOn(conn, from); err != nil { // and keeps the connection
				t.Error(err)
			}
		})
	}
	ended.Wait()
}

func TestSlowClients(t *testing.T) {
	read := func(rw http.ResponseWriter, req *http.Request) {
		if _, err := io.Copy(io.Discard, req.Body); err == nil {
			// With an unknown length it would be flushed under a lock, for which virtual time stands still.
			rw.Header().Set("Content-Length", strconv.Itoa(1<<20))
			rw.Write(make([]byte, 1<<20))
		}
	}
	for _, test := range []struct {
		name, sent string
		status     int // 0: none
		after      time.Duration
	}{
		{"nothing", "", 0, 5 * time.Second},
		{"half a header", "GET / HTTP/1.1\r\nHost", 0, 5 * time.Second},
		{"half a body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", 408, 30 * time.Second},
		{"half a chunk", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha", 408, 30 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, setting{rules: everyCall}, read, func(t *testing.T, b *memoryGateway) {
				conn, from := b.dialRaw()
				begun := time.Now()
				go io.WriteString(conn, test.sent)
				res, err := http.ReadResponse(from, nil)
				if took := time.Since(begun); took < test.after || took > test.after+time.Second {
					t.Errorf("took %v, want %v", took, test.after)
				}
				switch {
				case test.status != 0 && (err != nil || res.StatusCode != test.status):
					t.Errorf("%v, %v; want %d", res, err, test.status)
				case test.status == 0 && err == nil && res.StatusCode < 400:
					t.Errorf("status %d", res.StatusCode)
				}
				eventually(t, "the request is over", func() bool { return b.requests.Load() == 0 })
			})
		})
	}
	t.Run("takes nothing", func(t *testing.T) {
		inBubble(t, setting{rules: everyCall}, read, func(t *testing.T, b *memoryGateway) {
			conn, from := b.dialRaw()
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := http.ReadResponse(from, nil); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			for b.requests.Load() > 0 {
				time.Sleep(time.Second)
			}
			if took := time.Since(begun); took < 29*time.Second || took > 32*time.Second {
				t.Errorf("held the server for %v, want 30 s", took)
			}
		})
	})
	t.Run("rests between requests", func(t *testing.T) {
		inBubble(t, setting{rules: everyCall}, read, func(t *testing.T, b *memoryGateway) {
			conn, from := b.dialRaw()
			for _, test := range []struct {
				path   string
				status int
			}{{"/", 200}, {"/?%", 400}} {
				io.WriteString(conn, "GET "+test.path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				res, err := http.ReadResponse(from, nil)
				if err != nil || res.StatusCode != test.status {
					t.Fatalf("%s: %v, %v; want %d", test.path, res, err, test.status)
				}
				io.Copy(io.Discard, res.Body)
				time.Sleep(40 * time.Second) // longer than a write of a response may take
			}
		})
	})
	t.Run("waits for a slow server", func(t *testing.T) {
		slow := func(rw http.ResponseWriter, req *http.Request) {
			io.Copy(io.Discard, req.Body)
			for range 3 {
				time.Sleep(50 * time.Second) // longer than clients may take
				io.WriteString(rw, "piece ")
				http.NewResponseController(rw).Flush()
			}
		}
		inBubble(t, setting{rules: everyCall, options: Options{H2C: true}}, slow, func(t *testing.T, b *memoryGateway) {
			h2c := &http.Transport{DialContext: b.front.dial, Protocols: new(http.Protocols)}
			h2c.Protocols.SetUnencryptedHTTP2(true)
			t.Cleanup(h2c.CloseIdleConnections)
			for _, client := range []*http.Client{b.client(), {Transport: h2c}} {
				got := do(t, client, newRequest(t, "POST", "http://gateway.test/", strings.NewReader("body")))
				if got.body != "piece piece piece " {
					t.Errorf("%s %d %q", got.Proto, got.StatusCode, got.body)
				}
			}
		})
	})
}

package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/rawconn"
)

// What is not common is served by net/http, with all that was read.
func TestRest(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		io.WriteString(w, req.Method+" "+string(body))
	}), nil)
	for i, request := range []struct{ text, want string }{
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "POST hello"},
		{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "PUT hello"},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", bufferSize) + "\r\n\r\n", "GET "},
		{"\n\n\n\n", "400 Bad Request"},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request"},
	} {
		conn, from := dial(t, s.addr)
		send(t, conn, get+get+request.text)
		for range 2 {
			if res, body := receive(t, from, "GET"); res.StatusCode != http.StatusOK || body != "GET " {
				t.Errorf("%.99q: %v %q", request.text, res.Status, body)
			}
		}
		if _, body := receive(t, from, "GET"); body != request.want {
			t.Errorf("%.99q: %q, want %q", request.text, body, request.want)
		}
		conn.Close()
		if n := s.handed.of(http.StateNew); n != i+1 {
			t.Errorf("%.99q: %d connections were handed over, want %d", request.text, n, i+1)
		}
	}
}

// A head that arrives in pieces is net/http's to wait for.
func TestRestOfSlowHeads(t *testing.T) {
	s := start(t, responses["text"], nil)
	conn, from := dial(t, s.addr)
	for i := range get {
		send(t, conn, get[i:i+1])
		for i == 0 && s.handed.of(http.StateNew) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if res, body := receive(t, from, "GET"); res.StatusCode != http.StatusOK || body != "hello" {
		t.Errorf("%v %q", res.Status, body)
	}
}

// Deadlines end connections that send nothing, and those that send half a head: no later because they are handed over.
func TestDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		first, idle time.Duration
		text        string
		responses   int
	}{
		"nothing":      {first: 50 * time.Millisecond},
		"half a head":  {first: 50 * time.Millisecond, text: get[:20]},
		"idle":         {idle: 50 * time.Millisecond, text: get, responses: 1},
		"half a next":  {first: 50 * time.Millisecond, text: get + get[:20], responses: 1},
		"idle, second": {idle: 50 * time.Millisecond, text: get + get, responses: 2},
		"idle < first": {first: 10 * patience, idle: 50 * time.Millisecond, text: get, responses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, responses["text"], func(o *Options) { o.First, o.Idle = test.first, test.idle })
			conn, from := dial(t, s.addr)
			io.WriteString(conn, test.text) // on a slow machine the connection may be closed already
			for i := range test.responses {
				res, err := http.ReadResponse(from, nil)
				if err != nil && i == 0 && test.first > 0 {
					return // it took the test too long to send
				}
				if err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, res.Body)
			}
			if _, err := io.ReadAll(from); isTimeout(err) { // net/http answers some half heads
				t.Errorf("the connection was not closed: %v", err)
			}
		})
	}
}

// The time for the next head starts when the first request has been served, not when the connection was accepted.
func TestDeadlineOfTheNextHead(t *testing.T) {
	var served time.Time
	s := New(Options{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = time.Now() }),
		Context: t.Context(), ConnState: func(net.Conn, http.ConnState) {}, First: time.Hour,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer s.Close()
	go s.Serve(l)
	conn, _ := dial(t, l.Addr().String())
	send(t, conn, get+get[:20])
	handed, err := s.Rest(l.Addr()).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer handed.Close()
	if until := handed.(*Handed).until; until.Before(served.Add(time.Hour)) {
		t.Errorf("the head must arrive until %v, and the request before was served at %v", until, served)
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// The context of a request ends when the client disconnects, but not when it sends the next request.
func TestContext(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testContext(t, func(s *testServer) { s.watchAfter = 0 }) })
	t.Run("later", func(t *testing.T) { testContext(t, func(*testServer) {}) })
}

func testContext(t *testing.T, change func(*testServer)) {
	type contextKey struct{}
	begun, ended, goOn := make(chan context.Context), make(chan error), make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		begun <- req.Context()
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-goOn:
		}
	}), func(o *Options) { o.Context = context.WithValue(o.Context, contextKey{}, "value") })
	change(s)
	conn, from := dial(t, s.addr)
	send(t, conn, get)
	first := <-begun
	if first.Err() != nil || first.Value(contextKey{}) != "value" || first.Value(http.ServerContextKey) == nil {
		t.Errorf("the context is %v", first)
	}
	send(t, conn, get)
	goOn <- struct{}{}
	receive(t, from, "GET")
	second := <-begun
	if !errors.Is(first.Err(), context.Canceled) || second.Err() != nil {
		t.Errorf("the contexts of an old and a current request have the errors %v and %v", first.Err(), second.Err())
	}
	<-first.Done()
	conn.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("after the client has disconnected: %v", err)
	}
	if n := s.handed.of(http.StateNew); n != 0 {
		t.Errorf("%d connections were handed over", n)
	}
}

// A context that is first used after its request is a canceled one.
func TestContextAfterwards(t *testing.T) {
	contexts := make(chan context.Context, 1)
	s := start(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { contexts <- req.Context() }), nil)
	conn, from := dial(t, s.addr)
	send(t, conn, get)
	receive(t, from, "GET")
	ctx := <-contexts
	send(t, conn, get) // the first request has ended for certain when this is answered
	receive(t, from, "GET")
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error(ctx.Err())
	}
}

// Many requests on one connection, waiting and not, are answered in order and lose nothing.
func TestPipelining(t *testing.T) {
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "0") {
			req.Context().Done()
		}
		io.WriteString(w, req.URL.Path)
	}), nil).watchAtOnce()
	conn, from := dial(t, s.addr)
	const requests = 2000
	go func() {
		for i := range requests {
			io.WriteString(conn, "GET /"+strings.Repeat("x", i%50)+string(rune('0'+i%3))+" HTTP/1.1\r\nHost: a\r\n\r\n")
		}
	}()
	for i := range requests {
		want := "/" + strings.Repeat("x", i%50) + string(rune('0'+i%3))
		if res, body := receive(t, from, "GET"); res.StatusCode != http.StatusOK || body != want {
			t.Fatalf("response %d: %v %q, want %q", i, res.Status, body, want)
		}
	}
}

func TestPanic(t *testing.T) {
	s := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") }), nil)
	conn, from := dial(t, s.addr)
	send(t, conn, get)
	if _, err := from.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the connection was not closed: %v", err)
	}
	for deadline := time.Now().Add(patience); !strings.Contains(s.log.text(), "panic serving 127.0.0.1:") || !strings.Contains(s.log.text(), "broken"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log is %q", s.log.text())
		}
	}
}

// Shutdown closes idle connections at once, and others after their response, which says so.
func TestShutdown(t *testing.T) {
	t.Run("in parts", func(t *testing.T) { testShutdown(t, func(http.ResponseWriter) {}) })
	t.Run("whole", func(t *testing.T) { testShutdown(t, writeWhole) })
}

func testShutdown(t *testing.T, respond func(http.ResponseWriter)) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/wait" {
			begun <- struct{}{}
			<-goOn
		}
		respond(w)
	}), nil)
	idle, fromIdle := dial(t, s.addr)
	send(t, idle, get)
	receive(t, fromIdle, "GET")
	busy, fromBusy := dial(t, s.addr)
	send(t, busy, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	s.listener.Close()
	soon, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := s.Shutdown(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a request in flight: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	if _, err := fromIdle.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the idle connection was not closed: %v", err)
	}
	close(goOn)
	if res, _ := receive(t, fromBusy, "GET"); !res.Close {
		t.Error("the last response does not say that it is")
	}
	if _, err := fromBusy.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the connection was not closed: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A client that does not read its response is disconnected.
func TestWriteDeadline(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		control := http.NewResponseController(w)
		for part := make([]byte, 1<<20); ; {
			control.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := w.Write(part); err != nil {
				if req.Context().Err() == nil {
					t.Error("the request continues")
				}
				failed <- err
				return
			}
		}
	}), nil)
	conn, _ := dial(t, s.addr)
	send(t, conn, get)
	if err := <-failed; !isTimeout(err) {
		t.Error(err)
	}
}

// deadlines records the deadlines of a connection.
type deadlines struct {
	net.Conn
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read = append(d.read, t)
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write = append(d.write, t)
	return nil
}

// A connection that is handed over has no more time for its first head than it had left.
func TestHandedDeadline(t *testing.T) {
	until := time.Now().Add(time.Minute)
	for _, asked := range []time.Time{until.Add(time.Hour), until.Add(-time.Second)} {
		var d deadlines
		h := &Handed{Conn: &d, until: until}
		h.SetReadDeadline(asked)
		h.SetReadDeadline(until.Add(time.Hour))
		want := []time.Time{until, until.Add(time.Hour)}
		if asked.Before(until) {
			want[0] = asked
		}
		if !slices.Equal(d.read, want) {
			t.Errorf("asked for %v: %v, want %v", asked, d.read, want)
		}
	}
}

// The deadline of a write is moved only if it changes noticeably, in either direction.
func TestWriteDeadlineIsMoved(t *testing.T) {
	var d deadlines
	c, now := &conn{Socket: rawconn.Socket{Conn: &d}}, time.Now()
	hour, later, earlier := now.Add(time.Hour), now.Add(2*time.Hour), now.Add(time.Minute)
	for _, until := range []time.Time{hour, hour.Add(time.Second), hour.Add(-time.Second), later, later, earlier, {}, {}, hour} {
		c.limitWrite(until)
	}
	if want := []time.Time{hour, later, earlier, {}, hour}; !slices.Equal(d.write, want) {
		t.Errorf("%v, want %v", d.write, want)
	}
}

package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

// The bytes of a request are those that net/http writes.
func TestAppendRequest(t *testing.T) {
	lines := []string{"User-Agent: a", "User-Agent:", "user-agent: b", "Accept: */*", "X-B: 1", "x-b: 2", "X-A:", "Cookie: a=b; c=d", "Z!: \" z", "Accept-Encoding: gzip, br"}
	targets := []string{"/", "/a%2Fb", "/a?b=c&d", "//a/..//?", "/%e2?%zz"}
	random := rand.New(rand.NewPCG(7, 8))
	for range 2_000 {
		head := []string{"GET", "HEAD", "OPTIONS"}[random.IntN(3)] + " " + targets[random.IntN(len(targets))] + " HTTP/1.1\r\nHost: [::1]:80\r\n"
		for range random.IntN(8) {
			head += lines[random.IntN(len(lines))] + "\r\n"
		}
		r, ok := parse(head + "\r\n")
		if !ok {
			t.Fatalf("%q: not accepted", head)
		}
		var fields []Field
		for name, lines := range r.Header {
			fields = append(fields, Field{name, lines})
		}
		got := appendRequest(nil, r.Method, r.URL.RequestURI(), r.Host, fields)
		if r.Header["User-Agent"] == nil {
			r.Header["User-Agent"] = []string{""} // no other one, as httputil.ReverseProxy does it
		}
		var want bytes.Buffer
		if err := r.Write(&want); err != nil {
			t.Fatal(err)
		}
		if string(got) != want.String() {
			t.Fatalf("%q:\ngot  %q\nwant %q", head, got, want.String())
		}
	}
}

// call sends a request on the idle connection. It returns the response with the body, and whether it is a common one.
func call(ctx context.Context, c *Client, method string) (text string, isCommon bool, err error) {
	var to Call
	if !to.Begin(c) {
		return "", false, errors.New("no connection is idle")
	}
	defer to.Close()
	fields := append(to.Fields(), Field{"X-B", []string{"1", "2"}}, Field{"X-A", []string{"a"}})
	if err := to.Send(ctx, method, "/a%2Fb?c", "example.com", fields); err != nil {
		return "", false, err
	}
	var body strings.Builder
	if !to.IsCommon(method) {
		req, err := http.NewRequestWithContext(ctx, method, "http://example.com/", nil)
		if err != nil {
			return "", false, err
		}
		res, err := to.Response(req)
		if err != nil {
			return "", false, err
		}
		defer res.Body.Close()
		_, err = io.Copy(&body, res.Body)
		return fmt.Sprint(res.StatusCode, " ", body.String()), false, err
	}
	status := to.Status
	err = to.CopyBody(&body)
	return fmt.Sprint(status, " ", body.String()), true, err
}

// A call sends the same request as RoundTrip, reads the same response, and leaves the connection in the same state.
func TestCallAgreesWithRoundTrip(t *testing.T) {
	common := 0
	for _, script := range scripts {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			t.Run(fmt.Sprintf("%s %.20q", method, script), func(t *testing.T) {
				one, other := serveScript(t, ok, script, ok), serveScript(t, ok, script, ok)
				to, reference := one.client(t, nil), other.client(t, nil)
				fetch(t, to, one)
				fetch(t, reference, other)
				got, isCommon, err := call(t.Context(), to, method)
				if isCommon {
					common++
				}
				if err != nil && !errors.Is(err, ErrNoResponse) {
					got = "broken" // with or without a part of the body
				}
				want := "broken"
				// RoundTrip would send it again
				if script != hangUp {
					if res, err := reference.RoundTrip(other.request(t, t.Context(), method)); err == nil {
						body, err := io.ReadAll(res.Body)
						if want = fmt.Sprint(res.StatusCode, " ", string(body)); err != nil {
							want = "broken"
						}
					}
				} else {
					want = ""
				}
				if got != want {
					t.Errorf("got %.200q, want %.200q", got, want)
				}
				if script != hangUp && (len(to.idle) != len(reference.idle) || !slices.Equal(one.received(), other.received())) {
					t.Errorf("%d connections are idle, want %d; the server got\n%q\nwant\n%q", len(to.idle), len(reference.idle), one.received(), other.received())
				}
			})
		}
	}
	if common < 20 {
		t.Errorf("only %d responses were common", common)
	}
}

// If the server closes the connection without a response, the request can be sent again; not if a part has arrived.
func TestCallWithoutResponse(t *testing.T) {
	for answer, again := range map[string]bool{hangUp: true, "H" + hangUp: false} {
		s := serveScript(t, ok, answer)
		c := s.client(t, nil)
		fetch(t, c, s)
		if _, _, err := call(t.Context(), c, "GET"); err == nil || errors.Is(err, ErrNoResponse) != again {
			t.Errorf("%q: %v", answer, err)
		}
		if len(c.idle) != 0 {
			t.Errorf("%q: the connection is kept", answer)
		}
	}
}

// The response of a server is not read before there is an idle connection, and not from one that is not quiet.
func TestCallNeedsIdleConnection(t *testing.T) {
	s := serveScript(t, ok, ok)
	c := s.client(t, nil)
	if new(Call).Begin(c) {
		t.Error("a call without a connection")
	}
	fetch(t, c, s)
	var one, two Call
	if !one.Begin(c) || two.Begin(c) {
		t.Error("one connection must serve one call")
	}
	one.Close()
	s.await(t, "the connection is closed", func() bool { return s.open == 0 })
}

// A call that ends closes its connection, whether it waits for the head or for the body.
func TestCallCancels(t *testing.T) {
	for name, answer := range map[string]string{"head": silent, "body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", "other body": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"} {
		for kind, newContext := range map[string]func(context.Context) (context.Context, context.CancelFunc){
			"cancel": context.WithCancel,
			"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Millisecond)
			},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				s := serveScript(t, ok, answer)
				c := s.client(t, nil)
				fetch(t, c, s)
				ctx, cancel := newContext(t.Context())
				defer cancel()
				if kind == "cancel" {
					go func() {
						s.await(t, "the second request", func() bool { return len(s.requests) == 2 })
						cancel()
					}()
				}
				if _, _, err := call(ctx, c, "GET"); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
				s.await(t, "the connection is closed", func() bool { return s.open == 0 })
			})
		}
	}
}

// A connection is not used again after a response that was not read, that was followed by more, or that was the last.
func TestCallKeepsConnections(t *testing.T) {
	for _, test := range []struct {
		answer string
		read   bool
		kept   int
	}{
		{ok, true, 1},
		{ok, false, 0},
		{ok + "!", true, 0},
		{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true, 0},
		{"HTTP/1.1 204 No Content\r\n\r\n", true, 1},
		{"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), true, 1},
		{"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000) + "!", true, 0},
	} {
		s := serveScript(t, ok, test.answer)
		c := s.client(t, nil)
		fetch(t, c, s)
		var to Call
		if !to.Begin(c) {
			t.Fatal("no connection is idle")
		}
		if err := to.Send(t.Context(), "GET", "/", "a", nil); err != nil {
			t.Fatal(err)
		}
		if !to.IsCommon("GET") {
			t.Fatalf("%.50q: not common", test.answer)
		}
		if test.read {
			if err := to.CopyBody(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
		to.Close()
		to.Close()
		if strings.HasSuffix(test.answer, "x!") { // it may arrive later
			s.await(t, "the connection is closed", func() bool { return len(c.idle) == 0 || !c.idle[0].isQuiet() })
		} else if len(c.idle) != test.kept {
			t.Errorf("%.50q, read %t: %d connections are kept, want %d", test.answer, test.read, len(c.idle), test.kept)
		}
	}
}

// The deadline is for the head: a body may take its time.
func TestCallDeadline(t *testing.T) {
	for body, isLifted := range map[string]bool{"ok": false, "o": true} {
		s := serveScript(t, ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+body)
		c := s.client(t, func(o *ClientOptions) { o.ResponseHeader = time.Hour })
		fetch(t, c, s)
		var to Call
		if !to.Begin(c) {
			t.Fatal("no connection is idle")
		}
		defer to.Close()
		if err := to.Send(t.Context(), "GET", "/", "a", nil); err != nil || !to.IsCommon("GET") {
			t.Fatal(err)
		}
		if to.conn.readUntil.IsZero() != isLifted {
			t.Errorf("%q: the deadline is %v", body, to.conn.readUntil)
		}
	}
}

// What the client does not take ends the call.
func TestCallWriteFails(t *testing.T) {
	for _, length := range []int{2, 100_000} {
		s := serveScript(t, ok, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", length)))
		c := s.client(t, nil)
		fetch(t, c, s)
		var to Call
		if !to.Begin(c) {
			t.Fatal("no connection is idle")
		}
		if err := to.Send(t.Context(), "GET", "/", "a", nil); err != nil || !to.IsCommon("GET") {
			t.Fatal(err)
		}
		if err := to.CopyBody(brokenWriter{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%v", err)
		}
		if to.Close(); len(c.idle) != 0 {
			t.Error("the connection is kept")
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Informational responses reach the trace, and the final one is that of the call.
func TestCallInformational(t *testing.T) {
	s := serveScript(t, ok, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+ok, ok)
	c := s.client(t, nil)
	fetch(t, c, s)
	var got []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		got = append(got, fmt.Sprint(code, h))
		return nil
	}})
	text, isCommon, err := call(ctx, c, "GET")
	if text != "200 ok" || isCommon || err != nil || len(got) != 1 || got[0] != "103 map[Link:[</a>]]" {
		t.Errorf("%q %t %v %q", text, isCommon, err, got)
	}
	fetch(t, c, s) // the end of the call does not close the connection once more
	if got := s.received(); got[2][:2] != "1:" {
		t.Errorf("%q", got)
	}
}

// The timer of a request that has ended does not touch the next one, and a context is waited for once.
func TestWatching(t *testing.T) {
	s := serveScript(t)
	conn, err := s.client(t, nil).connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.await() // late
	if conn.cancelled != nil || !conn.unwatch() {
		t.Error("it waits without a request")
	}
	ctx, cancel := context.WithCancel(t.Context())
	conn.watch(ctx)
	if conn.await(); conn.cancelled == nil {
		t.Error("it does not wait for the context")
	}
	once := conn.cancelled
	conn.cancelled = func() bool { return false }
	if conn.await(); conn.cancelled() {
		t.Error("it waits twice")
	}
	conn.cancelled = once
	if !conn.unwatch() {
		t.Error("interrupted")
	}
	if conn.await(); conn.cancelled != nil {
		t.Error("it waits for a request that has ended")
	}
	timed, end := context.WithTimeout(t.Context(), time.Hour)
	defer end()
	if conn.watch(timed); conn.cancelled == nil || !conn.unwatch() {
		t.Error("it does not wait for a deadline at once")
	}
	conn.watch(ctx)
	conn.await()
	cancel()
	if conn.unwatch() {
		t.Error("not interrupted")
	}
}

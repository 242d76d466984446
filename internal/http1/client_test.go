package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A scriptedServer answers each request with the next text, whatever that is.
type scriptedServer struct {
	net.Listener
	mu       sync.Mutex
	answers  []string // one that ends with hangUp closes the connection
	requests []string // each with the number of its connection
	open     int
}

const (
	hangUp = "<closed>"
	silent = "<silent>" // nothing is sent, and the connection stays open
)

func serveScript(t *testing.T, answers ...string) *scriptedServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "http1-") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s")) // hundreds of servers would use up the ports
	if err != nil {
		t.Fatal(err)
	}
	s := &scriptedServer{Listener: l, answers: answers}
	var ended sync.WaitGroup
	ended.Go(func() {
		for i := 1; ; i++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.count(1)
			ended.Go(func() {
				defer s.count(-1)
				defer conn.Close()
				s.serve(conn, i)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		ended.Wait()
	})
	return s
}

func (s *scriptedServer) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += n
}

func (s *scriptedServer) serve(conn net.Conn, number int) {
	for from := bufio.NewReader(conn); ; {
		var request strings.Builder
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = from.ReadString('\n'); err != nil {
				return
			}
			request.WriteString(line)
		}
		answer, closes := s.next(fmt.Sprintf("%d: %s", number, request.String()))
		io.WriteString(conn, answer)
		if closes {
			return
		}
	}
}

// next records a request and returns the answer to it.
func (s *scriptedServer) next(request string) (answer string, closes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if len(s.answers) == 0 {
		return "", true
	}
	answer, s.answers = s.answers[0], s.answers[1:]
	if answer == silent {
		return "", false
	}
	return strings.CutSuffix(answer, hangUp)
}

func (s *scriptedServer) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// await waits until a condition holds, with the lock held.
func (s *scriptedServer) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ok := condition()
		s.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

const maxTestHead = 8 << 10

func (s *scriptedServer) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", s.Addr().String())
}

func (s *scriptedServer) client(t *testing.T, change func(*ClientOptions)) *Client {
	o := ClientOptions{
		Dial: s.dial, MaxIdle: 10, Idle: time.Hour, MaxHeaderBytes: maxTestHead,
	}
	if change != nil {
		change(&o)
	}
	c := NewClient(o)
	t.Cleanup(c.CloseIdle)
	return c
}

func (s *scriptedServer) request(t *testing.T, ctx context.Context, method string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://upstream/a%2Fb?c", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Header = "example.com", http.Header{"X-B": {"1", "2"}, "X-A": {"a"}, "User-Agent": {""}}
	return req
}

// scripts are responses that an http.Transport and a Client must understand in the same way.
var scripts = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n" + hangUp,
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n" + hangUp,
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe" + hangUp,
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\n\r\nuntil the end" + hangUp,
	"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
	"HTTP/1.1 204 No Content\r\n\r\n",
	"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nX-a:d\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
	"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
	"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 99 OK\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nX A: b\r\nContent-Length: 5\r\n\r\nhello" + hangUp,
	"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxTestHead) + "\r\n\r\n" + hangUp,
	"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n" + strings.Repeat("x", 100_000) + "\r\n0\r\n\r\n",
	"rubbish" + hangUp,
	hangUp,
}

// describe sends requests, and returns the responses.
func describe(t *testing.T, to http.RoundTripper, s *scriptedServer, method string, requests int) string {
	t.Helper()
	var text strings.Builder
	for range requests {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			fmt.Fprintf(&text, "%d %v\n", code, header)
			return nil
		}})
		res, err := to.RoundTrip(s.request(t, ctx, method))
		if err != nil {
			text.WriteString("no response\n") // the texts of errors differ
			continue
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Fprintf(&text, "%s %s %v %d %v %v %q %t %v\n", res.Proto, res.Status, res.Header, res.ContentLength, res.TransferEncoding, res.Close, body, err != nil, res.Trailer)
	}
	return text.String()
}

// compareClients fails if a Client and an http.Transport send other requests, or understand a response differently.
func compareClients(t *testing.T, method, script string, requests int) {
	const second = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond"
	one, other := serveScript(t, script, second), serveScript(t, script, second)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return other.dial(ctx) }
	transport := &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: maxTestHead}
	defer transport.CloseIdleConnections()
	got, want := describe(t, one.client(t, nil), one, method, requests), describe(t, transport, other, method, requests)
	if got != want {
		t.Errorf("%s %.300q:\ngot  %.900s\nwant %.900s", method, script, got, want)
	}
	if !slices.Equal(one.received(), other.received()) {
		t.Errorf("%s %.300q: the server got\n%q\nwant\n%q", method, script, one.received(), other.received())
	}
}

// A Client sends the bytes that an http.Transport sends, on the same connections, and understands responses in the same
// way.
func TestClientAgreesWithTransport(t *testing.T) {
	for _, script := range scripts {
		for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
			t.Run(fmt.Sprintf("%s %.20q", method, script), func(t *testing.T) {
				requests := 2
				if method == "HEAD" || strings.HasSuffix(script, "!") {
					requests = 1 // with what is left over a transport may answer the second one
				}
				compareClients(t, method, script, requests)
			})
		}
	}
}

// Changed responses, too.
func TestClientAgreesOnChangedResponses(t *testing.T) {
	pieces := append([]string{"HTTP/1.1 100 Continue\r\n\r\n", "0\r\n", "5\r\n", "Content-Length: 3\r\n", "hello"}, alphabet...)
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		script := scripts[random.IntN(len(scripts)-6)]
		script = strings.TrimSuffix(script, hangUp)
		for range 1 + random.IntN(2) {
			i := random.IntN(len(script) + 1)
			j := min(i+random.IntN(3), len(script))
			script = script[:i] + pieces[random.IntN(len(pieces))] + script[j:]
		}
		t.Run("", func(t *testing.T) { compareClients(t, "GET", script+hangUp, 1) })
	}
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// fetch sends a request that must succeed.
func fetch(t *testing.T, c *Client, s *scriptedServer) {
	t.Helper()
	res, err := c.RoundTrip(s.request(t, t.Context(), "GET"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); string(body) != "ok" || err != nil {
		t.Fatalf("%q, %v", body, err)
	}
}

// A request is sent again if an idle connection ends without any part of a response, and only then.
func TestClientRetries(t *testing.T) {
	s := serveScript(t, ok, hangUp, ok)
	c := s.client(t, nil)
	fetch(t, c, s)
	fetch(t, c, s)
	if got := s.received(); len(got) != 3 || got[1][:2] != "1:" || got[2][:2] != "2:" {
		t.Errorf("%q", got)
	}
	for name, answers := range map[string][]string{"new connection": {hangUp}, "half a head": {ok, "HTTP/1.1 200 OK\r\n" + hangUp}} {
		t.Run(name, func(t *testing.T) {
			s := serveScript(t, append(answers, ok)...)
			c := s.client(t, nil)
			for range len(answers) - 1 {
				fetch(t, c, s)
			}
			if res, err := c.RoundTrip(s.request(t, t.Context(), "GET")); err == nil {
				t.Errorf("%v", res.Status)
			}
			if got := s.received(); len(got) != len(answers) {
				t.Errorf("%q", got)
			}
		})
	}
}

// What a server sends on an idle connection is not the response to the next request.
func TestClientIgnoresUnsolicitedResponses(t *testing.T) {
	const forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	s := serveScript(t, ok+forged, ok)
	c := s.client(t, nil)
	fetch(t, c, s)
	fetch(t, c, s)
	if got := s.received(); len(got) != 2 || got[1][:2] != "2:" {
		t.Errorf("%q", got)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c = NewClient(ClientOptions{
		Dial:    func(context.Context) (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) },
		MaxIdle: 1, Idle: time.Hour,
	})
	conn, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if !conn.isQuiet() {
		t.Error("a new connection is not quiet")
	}
	send(t, server, forged)
	for deadline := time.Now().Add(patience); conn.isQuiet(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a connection on which the server has sent something is quiet")
		}
	}
	if !c.put(conn) {
		t.Fatal("the connection is not kept")
	}
	next, err := c.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if next == conn {
		t.Error("the connection is used for the next request")
	}
}

// A head may have as many bytes as the limit says, not as many as fit in the buffer.
func TestClientLimitsHeads(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for limit, fits := range map[int64]bool{int64(len(head)): true, int64(len(head)) - 1: false} {
		s := serveScript(t, head)
		c := s.client(t, func(o *ClientOptions) { o.MaxHeaderBytes = limit })
		if _, err := c.RoundTrip(s.request(t, t.Context(), "GET")); (err == nil) != fits {
			t.Errorf("at most %d bytes: %v", limit, err)
		}
	}
}

// A request that ends closes its connection, whether it waits for the head or for the body.
func TestClientCancels(t *testing.T) {
	for name, answer := range map[string]string{"head": silent, "body": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"} {
		t.Run(name, func(t *testing.T) {
			s := serveScript(t, ok, answer)
			c := s.client(t, nil)
			fetch(t, c, s)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				s.await(t, "the second request", func() bool { return len(s.requests) == 2 })
				cancel()
			}()
			res, err := c.RoundTrip(s.request(t, ctx, "GET"))
			if err == nil {
				_, err = io.ReadAll(res.Body)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			s.await(t, "the connection is closed", func() bool { return s.open == 0 })
			if got := s.received(); len(got) != 2 {
				t.Errorf("%q", got)
			}
		})
	}
}

// A body that is not read to its end closes the connection.
func TestClientClosesUnreadBodies(t *testing.T) {
	s := serveScript(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
	res, err := s.client(t, nil).RoundTrip(s.request(t, t.Context(), "GET"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	s.await(t, "the connection is closed", func() bool { return s.open == 0 })
}

// A server that does not answer in time is not asked again, and the deadline is only for the head.
func TestClientTimeout(t *testing.T) {
	s := serveScript(t, ok, silent)
	c := s.client(t, func(o *ClientOptions) { o.ResponseHeader = 50 * time.Millisecond })
	for i := range 2 { // on a slow machine the first may be late, too
		res, err := c.RoundTrip(s.request(t, t.Context(), "GET"))
		if err == nil {
			io.ReadAll(res.Body)
		} else if !isTimeout(err) || errors.Is(err, ErrNoResponse) {
			t.Errorf("request %d: %v", i, err)
		}
		if err == nil && i == 1 {
			t.Error("a response")
		}
	}
	if got := s.received(); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// A request that was cancelled as its response ended leaves a connection with a deadline: it is not used again.
func TestClientDropsInterruptedConnections(t *testing.T) {
	for isLive, kept := range map[bool]int{true: 1, false: 0} {
		s := serveScript(t)
		c := s.client(t, nil)
		conn, err := c.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.ctx, conn.cancelled = t.Context(), func() bool { return isLive }
		if conn.end(true); len(c.idle) != kept {
			t.Errorf("live %v: %d connections are kept, want %d", isLive, len(c.idle), kept)
		}
	}
}

// The number of idle connections and their time are limited.
func TestClientIdle(t *testing.T) {
	s := serveScript(t, ok)
	c := s.client(t, func(o *ClientOptions) { o.Idle = time.Millisecond })
	fetch(t, c, s)
	s.await(t, "the connection is closed", func() bool { return s.open == 0 })

	s = serveScript(t, ok, ok, ok)
	c = s.client(t, func(o *ClientOptions) { o.MaxIdle = 0 })
	fetch(t, c, s)
	fetch(t, c, s)
	if got := s.received(); got[1][:2] != "2:" {
		t.Errorf("%q", got)
	}
}

func TestClientSuits(t *testing.T) {
	s := serveScript(t)
	c := s.client(t, nil)
	if !c.Suits(s.request(t, t.Context(), "GET")) {
		t.Error("a GET request does not suit")
	}
	for name, change := range map[string]func(*http.Request){
		"method":   func(r *http.Request) { r.Method = "DELETE" },
		"body":     func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("a")) },
		"length":   func(r *http.Request) { r.ContentLength = 5 },
		"close":    func(r *http.Request) { r.Close = true },
		"trailer":  func(r *http.Request) { r.Trailer = http.Header{"A": nil} },
		"encoding": func(r *http.Request) { r.TransferEncoding = []string{"chunked"} },
		"upgrade":  func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		"expect":   func(r *http.Request) { r.Header.Set("Expect", "100-continue") },
		"te":       func(r *http.Request) { r.Header.Set("Te", "trailers") },
	} {
		req := s.request(t, t.Context(), "GET")
		change(req)
		if c.Suits(req) {
			t.Errorf("%s: it suits", name)
		}
	}
}

package httplimit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// patience bounds the wait for events that happen on their own. Only a failing test uses it up.
const patience = 30 * time.Second

// newServer starts a real server for the handler, HTTP/2 with TLS or HTTP/1.1 without.
func newServer(t *testing.T, h http.Handler, http2 bool) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // clients disconnect here on purpose
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// get sends a request and returns the whole response.
func get(t *testing.T, s *httptest.Server, path string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
	res, err := s.Client().Do(req)
	if err != nil {
		t.Error(err)
		return &http.Response{Header: http.Header{}}, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res, string(body)
}

func TestExactlyTheLimitPasses(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			l := newLimiter(t, "rules: [{name: ten, key: [ip], limits: [10/1h]}]", Options{})
			var reached atomic.Int64
			s := newServer(t, l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })), http2)
			var passed, denied atomic.Int64
			var all sync.WaitGroup
			start := make(chan struct{})
			for range 50 {
				all.Go(func() {
					<-start
					res, body := get(t, s, "/")
					if res.Proto != name {
						t.Errorf("over %s", res.Proto)
					}
					switch res.StatusCode {
					case 200:
						passed.Add(1)
					case 429:
						denied.Add(1)
						if res.Header.Get("Retry-After") == "" || !strings.Contains(body, `"error":"rate_limited"`) {
							t.Errorf("%v %s", res.Header, body)
						}
					default:
						t.Errorf("status %d", res.StatusCode)
					}
					if res.Header.Get("RateLimit") == "" || res.Header.Get("RateLimit-Policy") != `"ten";q=10;w=3600` {
						t.Errorf("%v", res.Header)
					}
				})
			}
			close(start)
			all.Wait()
			if passed.Load() != 10 || denied.Load() != 40 || reached.Load() != 10 {
				t.Errorf("%d passed, %d denied, %d reached", passed.Load(), denied.Load(), reached.Load())
			}
		})
	}
}

// The fields are spelled on the wire as the draft does.
func TestSpellingOnTheWire(t *testing.T) {
	l := newLimiter(t, "rules: [{name: ten, key: [ip], limits: [10/1h]}]", Options{WriterOptions: WriterOptions{Headers: []string{"ietf", "x-ratelimit"}}})
	s := newServer(t, l.Wrap(ok), false)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"\r\nRateLimit-Policy: \"ten\";q=10;w=3600\r\n", "\r\nRateLimit: \"ten\";r=9;t=", "\r\nX-RateLimit-Limit: 10\r\n", "\r\nX-RateLimit-Remaining: 9\r\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// A connection that the handler has taken over counts until the handler returns.
func TestHijacked(t *testing.T) {
	l := newLimiter(t, `rules:
  - {name: bytes, match: {path: /socket}, key: [], limits: [{rate: 1000/1h, algorithm: fixed_window}], cost: {response_bytes: true, default: 7, max: 1000}}
  - {name: place, key: [], limits: [{concurrent: 1, ttl: 10m}]}
`, Options{OnError: func(_ *http.Request, err error) { t.Error(err) }})
	ended := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", ok)
	mux.HandleFunc("/socket", func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
		_, _ = buffered.ReadString('\n')
	})
	limited := l.Wrap(mux)
	s := newServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		limited.ServeHTTP(w, req)
		if req.URL.Path == "/socket" {
			close(ended)
		}
	}), false)
	conn := upgrade(t, s.Listener.Addr().String())
	if res, _ := get(t, s, "/"); res.StatusCode != 429 {
		t.Errorf("beside the socket: %d", res.StatusCode)
	}
	fmt.Fprint(conn, "bye\n") // and the handler closes it
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the handler does not return")
	}
	if res, _ := get(t, s, "/"); res.StatusCode != 200 {
		t.Errorf("after the socket: %d", res.StatusCode)
	}
	var v penstock.Verdict
	peek := penstock.Call{Attributes: []penstock.Attribute{{Name: "path", Value: "/socket"}}}
	if err := l.decider.Decide(t.Context(), &peek, &v); err != nil || v.Limits[0].Used != 7 {
		t.Errorf("the socket paid %+v, %v; want the estimate of 7", v.Limits, err)
	}
}

// upgrade opens a connection to /socket that echoes, and reads the echo.
func upgrade(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return conn
}

// Behind the limiter, the reverse proxy of the standard library upgrades connections and streams, and the
// rate-limit headers of its upstream server stay.
func TestBeforeAReverseProxy(t *testing.T) {
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"theirs";r=1`)
		_, _ = io.WriteString(w, "first ")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "second")
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(101)
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	})
	upstream := newServer(t, mux, false)
	target, _ := url.Parse(upstream.URL)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	l := newLimiter(t, "rules: [{name: ours, key: [], limits: [100/1h]}]", Options{})
	s := newServer(t, l.Wrap(proxy), false)

	upgrade(t, s.Listener.Addr().String())

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/stream", nil)
	res, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Values("RateLimit"); len(got) != 2 {
		t.Errorf("RateLimit: %q", got)
	}
	first := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "first " {
		t.Errorf("%q, %v", first, err)
	}
	close(release)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != "second" {
		t.Errorf("%q, %v", rest, err)
	}
}

// A client that disconnects while its request is held never reaches the handler, over either protocol, with a
// body or without.
func TestHangsUpWhileHeld(t *testing.T) {
	for _, test := range []struct {
		name  string
		http2 bool
		body  io.Reader
	}{
		{"HTTP/1.1", false, nil},
		{"HTTP/1.1 with a body", false, strings.NewReader("body")},
		{"HTTP/1.1 with a body of unknown length", false, io.MultiReader(strings.NewReader("body"))},
		{"HTTP/2.0", true, nil},
		{"HTTP/2.0 with a body", true, strings.NewReader("body")},
	} {
		t.Run(test.name, func(t *testing.T) {
			gone := make(chan error, 1)
			l := newLimiter(t, "rules: [{name: even, key: [], limits: [{rate: 1/1h, queue: 1, algorithm: leaky_bucket}]}]", Options{
				ReaderOptions: ReaderOptions{MaxDelay: 2 * time.Hour},
				OnError:       func(_ *http.Request, err error) { gone <- err },
			})
			var reached atomic.Int64
			s := newServer(t, l.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) })), test.http2)
			if res, _ := get(t, s, "/"); res.StatusCode != 200 {
				t.Fatal(res.StatusCode)
			}
			ctx, cancel := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "POST", s.URL, test.body)
			asked := make(chan error, 1)
			go func() {
				res, err := s.Client().Do(req)
				if err == nil {
					res.Body.Close()
				}
				asked <- err
			}()
			waitUntil(t, func() bool { return l.Held().Requests == 1 })
			cancel()
			if err := <-asked; err == nil {
				t.Error("it was answered")
			}
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("it is still held")
			}
			if reached.Load() != 1 {
				t.Errorf("%d reached", reached.Load())
			}
		})
	}
}

func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// A held request's body arrives whole, whatever its size.
func TestHeldBodyArrives(t *testing.T) {
	l := newLimiter(t, "rules: [{name: even, key: [], limits: [{rate: 100/1s, queue: 10, algorithm: leaky_bucket}]}]", Options{})
	s := newServer(t, l.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		n, err := io.Copy(io.Discard, req.Body)
		fmt.Fprintln(rw, n, err)
	})), false)
	for _, size := range []int{0, 1, maxReadAhead - 1, maxReadAhead, maxReadAhead + 1, 1 << 20} {
		for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", size)), io.MultiReader(strings.NewReader(strings.Repeat("x", size)))} {
			res, err := s.Client().Post(s.URL, "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if want := fmt.Sprintln(size, nil); string(got) != want {
				t.Errorf("of %d bytes %q arrived", size, got)
			}
		}
	}
}

package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestServerGoesOutAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{log: slog.New(slog.DiscardHandler)}
		broken := errors.New("broken")
		for range failuresToGoOut {
			if !s.admit() {
				t.Fatal("it is out too early")
			}
			s.failed(broken)
		}
		for _, backOff := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			s.failed(broken) // of requests that were under way
			time.Sleep(backOff*time.Second - 1)
			if s.admit() {
				t.Fatalf("it is asked again before %d s", backOff)
			}
			time.Sleep(time.Nanosecond)
			if !s.admit() {
				t.Fatalf("it is not asked again after %d s", backOff)
			}
			if s.admit() {
				t.Fatal("a second request goes to a server that is only tried")
			}
			s.left() // that client went away: another tries
			if !s.admit() {
				t.Fatal("nobody tries it any more")
			}
			s.failed(broken)
		}
		time.Sleep(maxBackOff)
		s.admit()
		s.succeeded()
		for range 2 {
			if !s.admit() || !s.health().Up || s.health().Error != "" {
				t.Error("it works and is not asked")
			}
		}
		s.failed(broken)
		s.succeeded()
		s.failed(broken)
		s.failed(broken)
		if !s.admit() {
			t.Error("failures that were not in a row put it out")
		}
	})
}

// closedAddress is one that nobody listens to, nor can: a connection has it until the test ends.
func closedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return "http://" + conn.LocalAddr().String()
}

func TestRoundRobinAndRetry(t *testing.T) {
	var first, second atomic.Int64
	a := newServer(t, func(_ http.ResponseWriter, req *http.Request) { first.Add(1) })
	b := newServer(t, func(_ http.ResponseWriter, req *http.Request) { second.Add(1) })
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: upstreams(a, closedAddress(t), b)}})
	client := newClient(t)
	const requests = 60
	for range requests {
		if got := get(t, client, s.url("/")); got.StatusCode != http.StatusOK {
			t.Errorf("status %d though two servers work", got.StatusCode)
		}
	}
	if first.Load()+second.Load() != requests || first.Load() < requests/4 || second.Load() < requests/4 {
		t.Errorf("%d and %d of %d requests", first.Load(), second.Load(), requests)
	}
	up := 0
	for _, h := range s.Health() {
		if h.Up {
			up++
		} else if h.Error == "" || h.Until.IsZero() {
			t.Errorf("down without a reason: %+v", h)
		}
	}
	if up != 2 || len(s.counted()) != requests {
		t.Errorf("%d servers up: %+v", up, s.Health())
	}
}

// A request that a server may have had is not sent to another.
func TestWhatMayHaveArrivedIsNotSentAgain(t *testing.T) {
	var arrived atomic.Int64
	abort := func(_ http.ResponseWriter, req *http.Request) {
		io.Copy(io.Discard, req.Body)
		arrived.Add(1)
		panic(http.ErrAbortHandler)
	}
	s := start(t, setting{options: Options{Upstreams: upstreams(newServer(t, abort), newServer(t, abort))}})
	client := newClient(t)
	for _, req := range []*http.Request{
		newRequest(t, "GET", s.url("/"), nil),
		newRequest(t, "POST", s.url("/"), strings.NewReader("body")),
	} {
		arrived.Store(0)
		if got := do(t, client, req); got.StatusCode != http.StatusBadGateway || arrived.Load() != 1 {
			t.Errorf("%s: status %d, arrived %d times", req.Method, got.StatusCode, arrived.Load())
		}
	}
}

// Neither clients that misbehave nor a lack of files here put a server out.
func TestServerIsNotBlamedForOthers(t *testing.T) {
	server := newServer(t, func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/wait" {
			<-req.Context().Done()
		}
		io.Copy(io.Discard, req.Body)
	})
	set := setting{options: Options{Upstreams: upstreams(server)}}
	var short atomic.Bool
	set.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if short.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s := newStand(t, set)
	s.routes[0].transport.DisableKeepAlives = true // each request dials
	ask := func(method, path string, body io.Reader, host string) int {
		req := httptest.NewRequest(method, "http://"+path, body)
		req.Host = host
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		if path == "a/wait" {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		rw := httptest.NewRecorder()
		s.Handler().ServeHTTP(rw, req.WithContext(ctx))
		return rw.Code
	}
	for range failuresToGoOut + 1 {
		for _, test := range []struct {
			path, host string
			body       io.Reader
			want       int
		}{
			{"a/", "b\xff", nil, 400},
			{"a/", "b c", nil, 400},
			{"a/", "a", iotest.ErrReader(errors.New("cut off")), 400},
			{"a/wait", "a", nil, statusClientLeft},
		} {
			if got := ask("POST", test.path, test.body, test.host); got != test.want {
				t.Errorf("%q of %q: status %d, want %d", test.path, test.host, got, test.want)
			}
		}
		short.Store(true)
		if got := ask("GET", "a/", nil, "a"); got != http.StatusServiceUnavailable {
			t.Errorf("status %d without files", got)
		}
		short.Store(false)
	}
	if h := s.Health()[0]; !h.Up || h.Failures > 0 {
		t.Errorf("%+v", h)
	}
}

func TestAllServersDown(t *testing.T) {
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: []Upstream{
		{URLs: []string{closedAddress(t), closedAddress(t)}},
		{Path: "/works", URLs: []string{newServer(t, func(http.ResponseWriter, *http.Request) {})}},
	}}})
	client := newClient(t)
	eventually(t, "all servers are out", func() bool {
		got := get(t, client, s.url("/"))
		if got.StatusCode == http.StatusServiceUnavailable && (got.Header.Get("Retry-After") == "" || got.Header.Get("Content-Type") != "application/problem+json") {
			t.Errorf("%v %s", got.Header, got.body)
		}
		return got.StatusCode == http.StatusServiceUnavailable
	})
	if got := get(t, client, s.url("/works")); got.StatusCode != http.StatusOK {
		t.Errorf("status %d of the route beside", got.StatusCode)
	}
}

func TestHealthChecks(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusOK)
	var checks atomic.Int64
	answer := func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/healthz" {
			checks.Add(1)
			rw.WriteHeader(int(status.Load()))
		}
	}
	set := setting{options: Options{Upstreams: []Upstream{{
		URLs: []string{"http://upstream.test"}, Health: &HealthCheck{Path: "/healthz", Interval: time.Second, Healthy: 2, Unhealthy: 3},
	}}}}
	inBubble(t, set, answer, func(t *testing.T, b *bubble) {
		client := b.client()
		for _, step := range []struct {
			status int
			after  time.Duration
			want   int
		}{
			{200, 0, 200},
			{500, 2 * time.Second, 200},
			{500, 2 * time.Second, 503},
			{200, time.Second, 503},
			{200, 2 * time.Second, 200},
			{302, 10 * time.Second, 200},
			{404, 10 * time.Second, 503},
		} {
			status.Store(int64(step.status))
			time.Sleep(step.after + time.Millisecond)
			if got := get(t, client, "http://gateway.test/"); got.StatusCode != step.want {
				t.Errorf("%v after the check says %d: status %d, want %d", step.after, step.status, got.StatusCode, step.want)
			}
		}
		if h := b.Health(); len(h) != 1 || h[0].Up || h[0].Error == "" {
			t.Errorf("%+v", h)
		}
		b.drain()
		b.wait()
		before := checks.Load()
		time.Sleep(time.Minute)
		if checks.Load() != before {
			t.Error("checks go on after the gateway has ended")
		}
	})
}

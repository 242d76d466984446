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
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// testRoute returns a route whose servers do not listen.
func testRoute(servers int) *route {
	r := &route{}
	for range servers {
		r.servers = append(r.servers, &server{log: slog.New(slog.DiscardHandler)})
	}
	return r
}

// inRotation counts the servers that get requests.
func (r *route) inRotation() (n int) {
	for _, s := range r.servers {
		if !s.out.Load() {
			n++
		}
	}
	return n
}

var errBroken = errors.New("broken")

func TestServerIsEjectedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := testRoute(2)
		s := r.servers[0]
		for range ejectRequests {
			if !s.admit() {
				t.Fatal("ejected too early")
			}
			r.failed(s, errBroken)
		}
		for _, backOff := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			r.failed(s, errBroken) // of a request that was in flight
			time.Sleep(backOff*time.Second - 1)
			if s.admit() {
				t.Fatalf("probed before %d s", backOff)
			}
			time.Sleep(time.Nanosecond)
			if !s.admit() {
				t.Fatalf("not probed after %d s", backOff)
			}
			if s.admit() {
				t.Fatal("a second request was let through beside the probe")
			}
			s.left() // the client went away: another request is the probe
			if !s.admit() {
				t.Fatal("no further probe")
			}
			r.failed(s, errBroken)
		}
		time.Sleep(maxBackOff)
		s.admit()
		s.succeeded()
		for range 2 {
			if !s.admit() || !s.health().Up || s.health().Error != "" {
				t.Errorf("not back after a successful probe: %+v", s.health())
			}
		}
	})
}

// A server is ejected only for a ratio of failures over enough recent requests.
func TestEjectionNeedsRatioAndMinimum(t *testing.T) {
	for _, test := range []struct {
		name     string
		outcomes string // f fails, s succeeds, - is a pause of a second
		ejected  bool
	}{
		{"too few requests", "fffffffff", false},
		{"enough", "ffffffffff", true},
		{"half", "sfsfsfsfsf", true},
		{"less than half", "ssfsfsfsfsf", false},
		{"successes first", "ssssssssssssssffffffffff", false},
		{"spread over more than the window", strings.Repeat("f--", 20), false},
		{"within the window", "ff-ff-ff-ff-ff-ff-ff", true},
		{"old successes do not count", "ssssssssssssssssssss-----------ffffffffff", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := testRoute(2)
				s := r.servers[0]
				for _, outcome := range test.outcomes {
					switch outcome {
					case 'f':
						r.failed(s, errBroken)
					case 's':
						s.succeeded()
					case '-':
						time.Sleep(time.Second + time.Millisecond)
					}
				}
				if ejected := s.out.Load(); ejected != test.ejected {
					t.Errorf("ejected: %t, want %t", ejected, test.ejected)
				}
			})
		})
	}
}

// However many servers fail, at least half of them stay in rotation, and a single one always.
func TestAtLeastHalfOfTheServersStay(t *testing.T) {
	for servers, stay := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 10: 5} {
		r := testRoute(servers)
		for range 2 * ejectRequests {
			for _, s := range r.servers {
				r.failed(s, errBroken)
			}
		}
		if left := r.inRotation(); left != stay {
			t.Errorf("%d of %d servers stay in rotation, want %d", left, servers, stay)
		}
		if h := r.servers[0].health(); h.Up || h.Error == "" {
			t.Errorf("of %d servers, a failing one is reported as %+v", servers, h)
		}
	}
}

// A failed health check keeps requests away whatever their outcome, and counts among the servers that are out; a
// successful one ends an ejection.
func TestHealthCheckOverrulesRequests(t *testing.T) {
	fail := func(r *route, s *server) {
		for range ejectRequests {
			r.failed(s, errBroken)
		}
	}
	r := testRoute(2)
	a, b := r.servers[0], r.servers[1]
	a.checked(false, errBroken)
	fail(r, b)
	if b.out.Load() || a.admit() || a.admitEjected() {
		t.Error("the last healthy server was ejected, or the unhealthy one gets requests")
	}
	a.succeeded() // of a request that was in flight
	if a.admit() {
		t.Error("a request overruled the health check")
	}
	a.checked(true, nil)
	fail(r, b)
	if !b.out.Load() || b.admit() {
		t.Error("not ejected though the other server is healthy")
	}
	b.checked(true, nil)
	if !b.admit() || !b.health().Up {
		t.Error("a passing health check does not end the ejection")
	}
}

// closedAddress returns an address that cannot be listened on: a connection has it until the test ends.
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

// A request that a server may have received is not sent to another one.
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

// Neither misbehaving clients nor a lack of local files take a server out of rotation.
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
	s := newTestGateway(t, set)
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
	for range 2 * ejectRequests {
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

// A client can choose requests that make the server close the connection or answer with garbage, or that cannot be
// sent at all. They do not take the server away from others.
func TestChosenFailuresDoNotEject(t *testing.T) {
	answer := func(rw http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/close":
			panic(http.ErrAbortHandler)
		case "/garbage":
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, "not HTTP\r\n\r\n")
			conn.Close()
		}
	}
	s := start(t, setting{options: Options{Upstreams: upstreams(newServer(t, answer), newServer(t, answer))}})
	client := newClient(t)
	for range 4 * ejectRequests {
		for path, want := range map[string]int{"/close": 502, "/garbage": 502, "/": 200} {
			if got := get(t, client, s.url(path)); got.StatusCode != want {
				t.Errorf("%s: status %d, want %d", path, got.StatusCode, want)
			}
		}
	}
	for _, h := range s.Health() {
		if !h.Up || h.Failures != 0 {
			t.Errorf("%+v", h)
		}
	}
}

// Timeouts count, so a client that knows a slow URL can eject servers, but never more than half of them.
func TestSlowURLEjectsAtMostHalf(t *testing.T) {
	set := setting{options: Options{
		Upstreams: upstreams("http://a.test", "http://b.test", "http://c.test"), Timeouts: Timeouts{ResponseHeader: time.Second},
	}}
	answer := func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/slow" {
			<-req.Context().Done()
		}
	}
	inBubble(t, set, answer, func(t *testing.T, b *memoryGateway) {
		client := b.client()
		var all sync.WaitGroup
		for range 3 * 4 * ejectRequests {
			all.Go(func() {
				if got := get(t, client, "http://gateway.test/slow"); got.StatusCode != http.StatusGatewayTimeout {
					t.Errorf("status %d of a slow URL", got.StatusCode)
				}
			})
		}
		all.Wait()
		if left := b.routes[0].inRotation(); left != 2 {
			t.Errorf("%d of 3 servers stay in rotation", left)
		}
		for range 10 {
			if got := get(t, client, "http://gateway.test/"); got.StatusCode != http.StatusOK {
				t.Errorf("status %d of a request beside", got.StatusCode)
			}
		}
	})
}

func TestCount5xx(t *testing.T) {
	for _, test := range []struct {
		status  int
		count   bool
		ejected bool
	}{{500, true, true}, {503, true, true}, {500, false, false}, {501, true, false}, {404, true, false}} {
		failing := newServer(t, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(test.status) })
		working := newServer(t, func(http.ResponseWriter, *http.Request) {})
		s := start(t, setting{options: Options{Upstreams: []Upstream{{URLs: []string{failing, working}, Count5xx: test.count}}}})
		client := newClient(t)
		for range 3 * ejectRequests {
			get(t, client, s.url("/"))
		}
		if ejected := !s.Health()[0].Up; ejected != test.ejected || !s.Health()[1].Up {
			t.Errorf("status %d, counted %t: %+v", test.status, test.count, s.Health())
		}
	}
}

// A server that accepts no connections holds only a bounded number of dials.
func TestPendingDialsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		var pending, highest atomic.Int32
		d := &boundedDialer{most: most, Dialer: &net.Dialer{Timeout: time.Second, ControlContext: func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
			highest.Store(max(highest.Load(), pending.Add(1)))
			defer pending.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		}}}
		var all sync.WaitGroup
		for range 10 * most {
			all.Go(func() {
				conn, err := d.DialContext(context.Background(), "tcp", "192.0.2.1:80")
				if err == nil {
					conn.Close()
				}
				if !isDialError(err) {
					t.Errorf("%v is no dial error", err)
				}
			})
		}
		all.Wait()
		if highest.Load() != most {
			t.Errorf("%d dials at a time, want %d", highest.Load(), most)
		}
	})
}

func TestAllServersDown(t *testing.T) {
	s := start(t, setting{rules: everyCall, options: Options{Upstreams: []Upstream{
		{URLs: []string{closedAddress(t), closedAddress(t)}},
		{Path: "/works", URLs: []string{newServer(t, func(http.ResponseWriter, *http.Request) {})}},
	}}})
	client := newClient(t)
	for range 4 * ejectRequests {
		got := get(t, client, s.url("/"))
		if got.StatusCode != http.StatusBadGateway || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("status %d, %v %s", got.StatusCode, got.Header, got.body)
		}
	}
	for _, h := range s.Health() {
		if h.Up != (h.Path == "/works") {
			t.Errorf("%+v", h)
		}
	}
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
	inBubble(t, set, answer, func(t *testing.T, b *memoryGateway) {
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

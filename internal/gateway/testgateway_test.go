package gateway

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// TestMain also fails tests that leak goroutines. It gives them patience to end: goleak by itself waits for half a
// second.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := findLeaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func findLeaks() error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// patience is how long tests wait for what must happen.
const patience = 30 * time.Second

// netHTTPOnly is the environment variable with which net/http serves all requests of the tests.
const netHTTPOnly = "PENSTOCK_TEST_NET_HTTP_ONLY"

const noRules = "rules: []"

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// A testGateway is a running gateway with a real engine.
type testGateway struct {
	*Gateway
	t      testing.TB
	engine *engine.Engine
	listen net.Addr
	drain  context.CancelFunc
	ended  chan error // receives the result of Serve

	mu    sync.Mutex
	calls []penstock.Call // as the limiter saw them
}

// A setting is what a test changes.
type setting struct {
	rules   string
	trusted []netip.Prefix
	options Options // Limiter and Reader are filled in
	listen  net.Listener
	dial    func(context.Context, string, string) (net.Conn, error) // of upstreams
	quiet   bool                                                    // requests are not recorded
	netHTTP bool                                                    // without the fast path
}

func upstreams(servers ...string) []Upstream { return []Upstream{{URLs: servers}} }

// newTestGateway returns a gateway that does not serve yet.
func newTestGateway(t testing.TB, set setting) *testGateway {
	t.Helper()
	s := &testGateway{t: t, ended: make(chan error, 1)}
	if set.rules == "" {
		set.rules = noRules
	}
	observe := s.observe
	if set.quiet {
		observe = nil
	}
	e := s.newEngine(set.rules, observe)
	s.engine = e
	o := set.options
	_, inMemory := set.listen.(*pipeNet)
	if !inMemory { // on a real clock a busy machine may take longer than any client or server should
		o.Timeouts.ReadHeader = cmp.Or(o.Timeouts.ReadHeader, -1)
		o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, -1)
		o.Timeouts.Dial = cmp.Or(o.Timeouts.Dial, -1)
	}
	read := httplimit.ReaderOptions{Sources: e.Sources, TrustedProxies: set.trusted}
	var err error
	if o.Reader, err = httplimit.NewReader(read); err != nil {
		t.Fatal(err)
	}
	if o.Limiter, err = httplimit.New(e, httplimit.Options{ReaderOptions: read}); err != nil {
		t.Fatal(err)
	}
	o.Sources = e.Sources
	o.FastPath = os.Getenv(netHTTPOnly) == "" && !set.netHTTP
	if s.Gateway, err = New(o); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.routes {
		if set.dial != nil {
			r.transport.DialContext = set.dial
		}
		if !inMemory {
			r.transport.ExpectContinueTimeout = patience
		}
		t.Cleanup(r.closeIdle)
	}
	return s
}

func (s *testGateway) newEngine(text string, observe func(*engine.Observation)) *engine.Engine {
	s.t.Helper()
	doc, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	snapshot, _, err := rules.Compile(doc, rules.Options{Secret: "of the tests"})
	if err != nil {
		s.t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 8 << 20})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { store.Close() })
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(snapshot), Observe: observe})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *testGateway) observe(o *engine.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := *o.Call
	call.Attributes = slices.Clone(call.Attributes)
	s.calls = append(s.calls, call)
}

// counted returns the requests that the limiter has seen since the last call.
func (s *testGateway) counted() []penstock.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// start serves until the test ends.
func start(t testing.TB, set setting) *testGateway {
	t.Helper()
	s := newTestGateway(t, set)
	l := set.listen
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	s.serve(l)
	return s
}

func (s *testGateway) serve(l net.Listener) {
	s.listen = l.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	s.drain = cancel
	go func() { s.ended <- s.Serve(ctx, l) }()
	s.t.Cleanup(func() {
		cancel()
		s.wait()
	})
}

// wait returns the result of Serve. It can be called repeatedly.
func (s *testGateway) wait() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		return err
	case <-time.After(2 * patience):
		s.t.Error("the gateway did not end")
		return nil
	}
}

func (s *testGateway) url(path string) string {
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	return scheme + s.listen.String() + path
}

func newClient(t testing.TB) *http.Client {
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func newServer(t testing.TB, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// An answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
}

func do(t testing.TB, client *http.Client, req *http.Request) answer {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("read the response: %v", err)
	}
	return answer{res, string(body)}
}

func get(t testing.TB, client *http.Client, url string, headers ...string) answer {
	t.Helper()
	return do(t, client, newRequest(t, "GET", url, nil, headers...))
}

// newRequest takes headers as "Name: value".
func newRequest(t testing.TB, method, url string, body io.Reader, headers ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header[name] = append(req.Header[name], value) // as written
	}
	return req
}

// dialRaw opens a raw connection to the gateway, on which a test speaks HTTP itself.
func (s *testGateway) dialRaw() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.listen.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

// used returns how much of the first limit is used, without charging it.
func (s *testGateway) used() int64 {
	s.t.Helper()
	var v penstock.Verdict
	if err := s.engine.Decide(context.Background(), new(penstock.Call), &v); err != nil || len(v.Limits) == 0 {
		s.t.Fatal(v, err)
	}
	return v.Limits[0].Used
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if waitUntil(ctx, done); ctx.Err() != nil {
		t.Fatalf("timed out waiting for: %s", what)
	}
}

func attributeOf(c *penstock.Call, name string) string {
	value, _ := c.Attribute(name)
	return value
}

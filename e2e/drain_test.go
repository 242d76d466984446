package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
)

// openFor is how long listeners stay open after SIGTERM. No test relies on it being enough: a client that sends
// later, because it was itself delayed, is not counted as an error.
const openFor = time.Second

// A fleet is nodes behind a load balancer that polls their /readyz, and takes one out only after it has become
// not ready.
type fleet struct {
	t     *testing.T
	parts []string // of the nodes' configuration

	mu     sync.Mutex
	in     []*fleetNode
	next   int
	passed int
	late   int // requests that were sent too late, to a closed listener

	watching sync.WaitGroup
	stop     context.CancelFunc
	ctx      context.Context
}

// A fleetNode is a node of a fleet.
type fleetNode struct {
	*node
	told time.Time     // latest time of SIGTERM; guarded by the fleet's mutex
	out  chan struct{} // closed when the balancer has taken it out
}

func newFleet(t *testing.T, parts ...string) *fleet {
	f := &fleet{t: t, parts: append(parts, fmt.Sprintf("gateway: {timeouts: {drain_delay: %v}}", openFor))}
	f.ctx, f.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		f.stop()
		f.watching.Wait()
	})
	return f
}

// add starts a node and adds it to the fleet.
func (f *fleet) add() *fleetNode {
	f.t.Helper()
	w := &fleetNode{node: start(f.t, f.parts...), out: make(chan struct{})}
	w.awaitStore()
	f.mu.Lock()
	f.in = append(f.in, w)
	f.mu.Unlock()
	f.watching.Go(func() { f.watch(w) })
	return w
}

// watch checks every few milliseconds whether the node is ready.
func (f *fleet) watch(w *fleetNode) {
	for ; f.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		a, err := trySend(http.MethodGet, w.url("admin", "/readyz"), "")
		switch {
		case err != nil && f.ctx.Err() == nil:
			f.t.Errorf("a node went away without a word: %v", err)
			return
		case a.StatusCode == http.StatusServiceUnavailable:
			f.mu.Lock()
			f.in = slices.DeleteFunc(f.in, func(other *fleetNode) bool { return other == w })
			f.mu.Unlock()
			close(w.out)
			return
		}
	}
}

// pick returns the node whose turn it is.
func (f *fleet) pick() *fleetNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	return f.in[f.next%len(f.in)]
}

// terminate sends SIGTERM to a node.
func (f *fleet) terminate(w *fleetNode) {
	f.mu.Lock()
	w.told = time.Now()
	f.mu.Unlock()
	w.terminate()
}

// isOpen reports whether the listeners of the node cannot have closed yet.
func (f *fleet) isOpen(w *fleetNode) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w.told.IsZero() || time.Since(w.told) < openFor
}

// count records the result of a request.
func (f *fleet) count(w *fleetNode, door string, err error) {
	open := f.isOpen(w)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.passed++
	case open:
		f.t.Errorf("%s, after %d calls: %v", door, f.passed, err)
	default:
		f.late++
	}
}

// ways are the APIs that clients use. A request that is not allowed by the shared state has failed.
var ways = map[string]func(ctx context.Context, n *node, user string) error{
	"gateway": func(_ context.Context, n *node, user string) error {
		a, err := trySend(http.MethodGet, n.url("gateway", "/x"), "", "X-User: "+user)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("got %s: %s", a.Status, a.body)
		}
		return err
	},
	"http": func(ctx context.Context, n *node, user string) error { return passes(ctx, n.http, user) },
	"grpc": func(ctx context.Context, n *node, user string) error { return passes(ctx, n.grpc, user) },
}

func passes(ctx context.Context, c remote, user string) error {
	call := newCall(user)
	var v penstock.Verdict
	if err := c.Decide(ctx, &call, &v); err != nil {
		return err
	}
	if !v.Allowed || v.Quality != penstock.QualityExact {
		return fmt.Errorf("got %+v", v)
	}
	return nil
}

// Three nodes are restarted one after the other while clients send requests to every API, some of them in flight
// when SIGTERM arrives. A node first becomes not ready and keeps serving, then closes its listeners, and ends
// when its last request is answered. No request fails, and each is counted once.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const user = "u"
	up := newUpstream(t)
	f := newFleet(t, rulesFile(t, perUser(1_000_000, "fixed_window")), onRedis("single", redistest.Start(t).Addr), up.config())
	var nodes []*fleetNode
	for range 3 {
		nodes = append(nodes, f.add())
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var calling sync.WaitGroup
	defer calling.Wait()
	defer stop()
	for door, ask := range ways {
		for range 2 {
			calling.Go(func() {
				for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
					w := f.pick()
					f.count(w, door, ask(t.Context(), w.node, user))
				}
			})
		}
	}

	held := 0
	for _, w := range nodes {
		underWay := holdCalls(t, w.node, up, user)
		f.terminate(w)
		awaitClosed(t, w.out, "the balancer has noticed")
		for door, ask := range ways { // new connections too
			if err := ask(t.Context(), w.fresh(), user); err == nil {
				held++
			} else if f.isOpen(w) {
				t.Errorf("%s, of a node that is not ready and has time: %v", door, err)
			}
		}
		if serves, err := underWay.isHealthy(); (serves || err != nil) && f.isOpen(w) {
			t.Errorf("over gRPC it says that it serves is %v: %v", serves, err)
		}
		for door := range ways {
			eventually(t, "nobody else gets in", func() bool { return refuses(w.addresses[door]) })
		}
		if w.process.Exited() {
			t.Fatal("it did not wait for calls under way")
		}
		held += underWay.finish()
		w.awaitEnd()
		f.add()
	}
	stop()
	calling.Wait()
	if f.passed < 100 {
		t.Errorf("only %d calls came in", f.passed)
	}
	used := int(f.pick().peek(user).used("per-user"))
	if all := f.passed + held; used < all || used > all+f.late {
		t.Errorf("%d were counted of %d that passed, and %d that came too late", used, all, f.late)
	}
	t.Logf("%d calls passed; %d were held up here until doors had closed", f.passed, f.late)
}

// A client that sends on a kept-alive connection while the node stops gets a response that says it was the last one,
// over the gateway and over the HTTP API.
func TestStoppingAnswersOnKeptConnections(t *testing.T) {
	t.Parallel()
	up := newUpstream(t)
	n := start(t, rulesFile(t, perUser(1_000_000, "fixed_window")), up.config())
	var clients sync.WaitGroup
	for door, request := range map[string]string{
		"gateway": "GET /x HTTP/1.1\r\nHost: penstock.test\r\nX-User: u\r\n\r\n",
		"http":    fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: penstock.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(callOf("u")), callOf("u")),
	} {
		answered := make(chan struct{})
		clients.Go(func() { sendUntilLast(t, door, n.addresses[door], request, answered) })
		awaitClosed(t, answered, "the first request is answered")
	}
	n.terminate()
	clients.Wait()
	n.awaitEnd()
}

// sendUntilLast sends a request again and again on one connection, until a response says that it is the last one. It
// closes answered after the first response.
func sendUntilLast(t *testing.T, door, address, request string, answered chan<- struct{}) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	responses, first := bufio.NewReader(conn), sync.OnceFunc(func() { close(answered) })
	defer first()
	// A connection that stays idle for longer than this may have been closed, and so may one whose request the node was
	// too busy to read meanwhile.
	const idle = 500 * time.Millisecond
	for sent := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, err := io.WriteString(conn, request)
		var got *http.Response
		if err == nil {
			got, err = http.ReadResponse(responses, nil)
		}
		if err != nil {
			if took := time.Since(sent); took < idle {
				t.Errorf("%s: the connection was closed before its last response, %v after the one before was asked for: %v", door, took, err)
			}
			return
		}
		sent = time.Now()
		_, err = io.Copy(io.Discard, got.Body)
		if got.Body.Close(); err != nil || got.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s: %v", door, got.Status, err)
		}
		if first(); got.Close {
			return
		}
	}
}

// fresh is the node with clients that have no connection yet.
func (w *fleetNode) fresh() *node {
	n := &node{t: w.t, dir: w.dir, addresses: w.addresses, cmd: w.cmd, process: w.process}
	n.connect()
	return n
}

func awaitClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	eventually(t, what, func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	})
}

func refuses(address string) bool {
	conn, err := net.DialTimeout("tcp", address, patient)
	if err == nil {
		conn.Close()
	}
	return err != nil
}

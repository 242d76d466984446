package e2e

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A node starts with the database and Redis down: it serves the last good rules and counts alone. When both are
// back it shares again and learns new rules.
func TestStartWithoutDatabaseAndRedis(t *testing.T) {
	t.Parallel()
	postgres, redis := pgtest.Start(t), redistest.Start(t)
	database, err := postgres.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, database, perUser(limit, "sliding_window_log"))
	config := []string{onRedis("single", redis.Addr), newUpstream(t).config(), "rules: {database: '" + database + "', poll_interval: 100ms}"}
	n := start(t, config...)
	n.awaitStore()
	if v := n.check(callOf("u")); !v.Allowed || v.Quality != "exact" || v.Rule != "per-user" {
		t.Errorf("before the outage: %+v", v)
	}
	n.terminate()
	n.awaitEnd()
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}

	n = startIn(t, n.dir, config...) // and is ready
	if a := n.get("admin", "/healthz"); a.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s: %s", a.Status, a.body)
	}
	if s := n.status(); !s.Ready || !s.Rules.FromCopy || s.Rules.Version != 1 || s.Store.Connected {
		t.Errorf("status without anything: %+v", s)
	}
	if passed := together(5*limit, func(int) int { return askGateway(n, "v") }); passed != limit {
		t.Errorf("%d calls passed without Redis, want %d", passed, limit)
	}
	if v := n.check(callOf("w")); !v.Allowed || v.Quality != "local" {
		t.Errorf("without Redis: %+v", v)
	}

	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Redis decides again", func() bool { return n.check(callOf("back")).Quality == "exact" })
	apply(t, database, perUser(3, "sliding_window_log"))
	eventually(t, "new rules are served", func() bool { s := n.status(); return s.Rules.Version == 2 && !s.Rules.FromCopy })
	if passed := together(3*limit, func(int) int { return askAuth(n, "x") }); passed != 3 {
		t.Errorf("%d calls passed after the outage, want 3", passed)
	}
}

// After SIGTERM under load, a node accepts no more requests and finishes those it has: clients get everything
// that the upstream served. Meanwhile it is not ready.
func TestTerminateUnderLoad(t *testing.T) {
	t.Parallel()
	const held = 10
	up := newUpstream(t)
	n := start(t, up.config(), rulesFile(t, perUser(1_000_000, "fixed_window")))
	var underWay sync.WaitGroup
	for _, path := range []string{"/held", "/begun"} {
		for range held {
			underWay.Go(func() {
				a := n.get("gateway", path, "X-User: held")
				if text := string(a.body); a.StatusCode != http.StatusOK || text != "served\n" && text != "it was served\n" {
					t.Errorf("%s, under way when the node was told to end: %s: %s", path, a.Status, a.body)
				}
			})
		}
	}
	for range 2 * held {
		up.await(t)
	}
	calls := untilRefused(t, n)
	eventually(t, "calls go through", func() bool { return up.served("load") >= 50 })

	calls.mayFail.Store(true)
	n.terminate()
	eventually(t, "it says that it is not ready", func() bool {
		return n.get("admin", "/readyz").StatusCode == http.StatusServiceUnavailable
	})
	calls.ended.Wait()
	if n.process.Exited() {
		t.Error("it did not wait for calls under way")
	}
	for range 2 * held {
		up.free(t)
	}
	underWay.Wait()
	n.awaitEnd()
	if served, got := up.served("load"), int(calls.passed.Load()); served != got {
		t.Errorf("%d calls were served and %d of them answered", served, got)
	}
	if served := up.served("held"); served != 2*held {
		t.Errorf("%d calls under way were served, want %d", served, 2*held)
	}
}

// calls are the requests of clients that continue until no listener accepts them.
type calls struct {
	mayFail atomic.Bool
	passed  atomic.Int64
	ended   sync.WaitGroup
}

func untilRefused(t *testing.T, n *node) *calls {
	c := new(calls)
	for range 8 {
		c.ended.Go(func() {
			for ; ; time.Sleep(time.Millisecond) {
				a, err := trySend(http.MethodGet, n.url("gateway", "/x"), "", "X-User: load")
				if err != nil {
					if !c.mayFail.Load() {
						t.Error(err)
					}
					return
				}
				if n.passed(a) == 1 {
					c.passed.Add(1)
				}
			}
		})
	}
	return c
}

// A request that is being sent when SIGTERM arrives is answered.
func TestTerminateWhileAsked(t *testing.T) {
	t.Parallel()
	n := start(t, newUpstream(t).config(), rulesFile(t, perUser(limit, "sliding_window_log")))
	body, question := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, n.url("http", "/v1/check"), body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue") // so that the body is sent when the node wants it
	patientClient := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: patient}, Timeout: patient}
	defer patientClient.CloseIdleConnections()
	answers := make(chan answer, 1)
	go func() {
		a, err := read(patientClient.Do(request))
		if err != nil {
			t.Error(err)
		}
		answers <- a
	}()
	half := len(callOf("u")) / 2
	if _, err := io.WriteString(question, callOf("u")[:half]); err != nil {
		t.Fatal(err)
	}
	n.terminate()
	eventually(t, "it drains", func() bool { return n.get("admin", "/readyz").StatusCode == http.StatusServiceUnavailable })
	if _, err := io.WriteString(question, callOf("u")[half:]); err != nil {
		t.Error(err)
	}
	question.Close()
	var v verdict
	if n.read(<-answers, &v); !v.Allowed || v.used("per-user") != 1 {
		t.Errorf("got %+v", v)
	}
	n.awaitEnd()
}

// A second signal does not wait.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t)
	n := start(t, up.config(), rulesFile(t, "rules: []"))
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = trySend(http.MethodGet, n.url("gateway", "/held"), "") // which is cut off
	}()
	up.await(t)
	n.terminate()
	eventually(t, "it drains", func() bool { return n.get("admin", "/readyz").StatusCode == http.StatusServiceUnavailable })
	eventually(t, "it ends", func() bool {
		_ = n.process.Signal(syscall.SIGTERM) // again, should it come before the first is dealt with
		return n.process.Exited()
	})
	if s, ok := n.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGTERM {
		t.Errorf("it ended otherwise: %v", n.cmd.ProcessState)
	}
	<-answered
}

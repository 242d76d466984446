package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A node that gets no requests notices that Redis has died or hangs, and every listener that serves /readyz
// reports it.
func TestIdleNodeNoticesDeadRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := startNode(t, impatient(nodetest.OnRedis("single", redis.Addr))+"listen: {health: '127.0.0.1:0'}\nrules: {file: "+nodetest.RulesFile(t, "rules: []")+"}\n")
	all := func(want string) func() bool {
		return func() bool {
			for _, name := range []string{"admin", "http", "health"} {
				answer, text := n.get(n.url(name, "/readyz"), "Host", "probe.example.com")
				if answer.StatusCode != http.StatusOK || !strings.HasPrefix(text, want) {
					return false
				}
			}
			return true
		}
	}
	const ready, degraded = "ready\n", "ready, but the store does not answer"
	for _, failure := range []struct {
		name       string
		begin, end func() error
	}{{"dies", redis.Kill, redis.Restart}, {"hangs", redis.Pause, redis.Resume}} {
		nodetest.Eventually(t, "ready before Redis "+failure.name, all(ready))
		if err := failure.begin(); err != nil {
			t.Fatal(err)
		}
		nodetest.Eventually(t, "degraded after Redis "+failure.name, all(degraded))
		if now := n.statusNow().Store; now.Connected || now.Error == "" {
			t.Errorf("Redis %s: status says %+v", failure.name, now)
		}
		if err := failure.end(); err != nil {
			t.Fatal(err)
		}
		nodetest.Eventually(t, "ready after Redis is back", all(ready))
	}
}

// The health listener serves nothing else. Like the others, it reports when the node stops.
func TestHealthListener(t *testing.T) {
	t.Parallel()
	n := startNode(t, "listen: {health: '127.0.0.1:0'}\n")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/metrics": 404, "/v1/status": 404, "/v1/check": 404} {
		if answer, _ := n.get(n.url("health", path)); answer.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, answer.Status, want)
		}
	}
	n.draining.Store(true) // as SIGTERM does, until the load balancers have noticed
	for _, name := range []string{"health", "http", "admin"} {
		if answer, text := n.get(n.url(name, "/readyz")); answer.StatusCode != http.StatusServiceUnavailable || text != "not ready: stopping\n" {
			t.Errorf("%s: %s: %s", name, answer.Status, text)
		}
	}
}

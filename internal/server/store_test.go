package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Whatever happens to Redis, every request is answered, and Redis decides again when it can.
func TestRedisComesAndGoes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	yaml := strings.Replace(nodetest.OnRedis("single", redis.Addr), "timeout: 20s", "timeout: 50ms", 1)
	n := startNode(t, yaml+"rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 100_000))+"}")
	is := func(quality, state string) func() bool {
		return func() bool {
			v := n.check(`{"user": "u1"}`)
			if !v.Allowed {
				t.Errorf("denied: %+v", v)
			}
			return v.Quality == quality && n.statusNow().Store.Breaker.State == state
		}
	}
	for _, fault := range []struct {
		name        string
		befall, end func() error
	}{
		{"killed", redis.Kill, redis.Restart},
		{"stopped", redis.Pause, redis.Resume},
		{"killed again", redis.Kill, redis.Restart},
	} {
		nodetest.Eventually(t, "before it is "+fault.name+" Redis decides", is("exact", "closed"))
		if err := fault.befall(); err != nil {
			t.Fatal(err)
		}
		nodetest.Eventually(t, fault.name+": it is not asked any more", is("local", "open"))
		answer, text := n.get(n.url("admin", "/readyz"))
		if answer.StatusCode != http.StatusOK || !strings.Contains(text, "the store does not answer") {
			t.Errorf("%s: readyz says %s: %s", fault.name, answer.Status, text)
		}
		if s := n.statusNow().Store; s.Connected || s.Error == "" {
			t.Errorf("%s: the status is %+v", fault.name, s)
		}
		if err := fault.end(); err != nil {
			t.Fatal(err)
		}
	}
	nodetest.Eventually(t, "in the end Redis decides", is("exact", "closed"))
	if _, text := n.get(n.url("admin", "/readyz")); strings.TrimSpace(text) != "ready" {
		t.Errorf("readyz says %s", text)
	}
	for _, said := range []string{`"msg":"Redis has failed, rules use`, `"kind":"refused"`, `"msg":"Redis connected"`} {
		if !strings.Contains(n.log.String(), said) {
			t.Errorf("the log does not say %s", said)
		}
	}
}

// A node that loses Redis continues from what it has allowed.
func TestGoesOnWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := startNode(t, nodetest.OnRedis("single", redis.Addr)+"rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 5))+"}")
	nodetest.Eventually(t, "the node is connected to Redis", func() bool { return n.statusNow().Store.Connected })
	for i, want := range []struct {
		allowed bool
		quality string
	}{{true, "exact"}, {true, "exact"}, {true, "exact"}, {true, "local"}, {true, "local"}, {false, "local"}} {
		if i == 3 {
			if err := redis.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if v := n.check(`{"user": "u1"}`); v.Allowed != want.allowed || v.Quality != want.quality {
			t.Errorf("call %d: %+v, want %+v", i, v, want)
		}
	}
}

// Nodes learn how many there are, keep the number for a start without Redis, and divide limits by it.
func TestNodesAreLearned(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := nodetest.RulesFile(t, "rules: [{name: per-user, key: [user], on_store_error: {local: divided}, limits: [{rate: 10/1h, algorithm: sliding_window_log}]}]")
	yaml := nodetest.OnRedis("single", redis.Addr) + "rules: {file: " + file + "}\n"
	dir := t.TempDir()
	first, second := startNode(t, yaml+"data_dir: "+dir), startNode(t, yaml)
	for _, n := range []*node{first, second} {
		nodetest.Eventually(t, "a node knows of the other", func() bool { return n.statusNow().Store.Nodes == 2 })
	}
	nodetest.Eventually(t, "the first has kept it", func() bool { // which it does after it says so
		kept, _ := os.ReadFile(filepath.Join(dir, "nodes.last-seen"))
		return strings.TrimSpace(string(kept)) == "2"
	})
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	passes := func(n *node, user string, want int) {
		t.Helper()
		passed := nodetest.Together(12, func(int) bool { return n.check(`{"user": "` + user + `"}`).Allowed })
		if passed != want {
			t.Errorf("%d of 12 passed, want %d", passed, want)
		}
	}
	passes(first, "u1", 5)
	passes(second, "u1", 5)
	first.stop()
	<-first.done
	passes(startNode(t, yaml+"data_dir: "+dir), "u2", 5)
	passes(startNode(t, yaml+"nodes: 4"), "u2", 3)
}

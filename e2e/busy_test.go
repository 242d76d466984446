package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Two nodes with default settings allow exactly the limit while other processes use up the CPU: a process that
// waits to be scheduled must not mistake its own delay for a slow Redis. The circuit breaker stays closed.
func TestExactlyTheLimitPassesOnABusyMachine(t *testing.T) {
	rounds := 10
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		rounds = 100
	}
	redis := redistest.Start(t)
	hogs := 6 * runtime.NumCPU()
	if !redis.Prefer() {
		hogs = 2 * runtime.NumCPU() // enough to slow it down
	}
	config := fmt.Sprintf("store: {redis: {addresses: ['%s']}}", redis.Addr)
	nodes := startAll(t, 2, config, newUpstream(t).config(), rulesFile(t, perUser(limit, "sliding_window_log")))
	before := []int{nodes[0].opened(), nodes[1].opened()}
	saturate(t, hogs)
	for round := range rounds {
		for _, d := range doors[:2] { // the gateway and the decision API
			user := fmt.Sprintf("round %d at %s", round, d.name)
			if passed := together(100, func(i int) int { return d.ask(nodes[i%len(nodes)], user) }); passed != limit {
				t.Errorf("round %d, %s: %d of 100 simultaneous requests passed, want %d", round, d.name, passed, limit)
			}
		}
	}
	for i, n := range nodes {
		if after := n.opened(); after != before[i] {
			t.Errorf("node %d has opened its circuit breaker %d times", i, after-before[i])
		}
	}
}

// opened returns how often the node has opened its circuit breaker.
func (n *node) opened() (times int) {
	n.t.Helper()
	const name = "\npenstock_store_failures_total "
	_, rest, found := strings.Cut(string(n.get("admin", "/metrics", "Authorization: Bearer "+adminToken).body), name)
	if _, err := fmt.Sscan(rest, &times); err != nil || !found {
		n.t.Fatalf("no figure for %q: %v", name, err)
	}
	return times
}

// saturate runs processes that use all the CPU they can get, until the test ends.
func saturate(t *testing.T, processes int) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	for range processes {
		p, err := child.Start(exec.Command("sh", "-c", "while :; do :; done"), log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
	}
}

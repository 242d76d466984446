package server

import (
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A node continues from the last state in Redis, charges Redis afterwards with what it allowed, and reports how
// much that was.
func TestOutageIsCharged(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	yaml := nodetest.OnRedis("single", redis.Addr) + "nodes: 2\nrules: {file: " + nodetest.RulesFile(t, `
rules:
  - {name: windows, match: {path: /window}, key: [user], limits: [{rate: 10/30d, algorithm: fixed_window}]}
  - {name: buckets, match: {path: /bucket}, key: [user], limits: [{rate: 10/30d, algorithm: token_bucket}]}
  - {name: leased, match: {path: /leased}, key: [user], consistency: leased, limits: [{rate: 10/30d, algorithm: token_bucket}]}
`) + "}"
	a, b := startNode(t, yaml), startNode(t, yaml)
	for _, n := range []*node{a, b} {
		nodetest.Eventually(t, "the store is connected", func() bool { return n.statusNow().Store.Connected })
	}
	paths := []string{"/window", "/bucket", "/leased"}
	check := func(n *node, path string) (allowed bool, remaining int64) {
		v := n.check(`{"path": "` + path + `", "user": "u"}`)
		return v.Allowed, v.Remaining
	}
	for _, path := range paths {
		for range 4 {
			check(a, path)
		}
		check(b, path)
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "Redis is given up on", func() bool {
		b.check(`{"path": "/window", "user": "somebody else"}`)
		return !b.statusNow().Store.Connected
	})
	for _, path := range paths[:2] {
		for i := range 3 {
			if ok, left := check(b, path); !ok || left != int64(4-i) {
				t.Errorf("%s, request %d during the outage: allowed %v, %d left", path, i, ok, left)
			}
		}
	}
	check(b, "/leased")
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	charged := func() bool {
		_, text := b.get(b.url("admin", "/metrics"), "Authorization", "Bearer "+b.token)
		return strings.Contains(text, "\npenstock_late_charges_waiting 0\n") && !strings.Contains(text, "\npenstock_late_charges_total 0\n") &&
			strings.Contains(text, "\npenstock_late_charges_dropped_total 0\n")
	}
	nodetest.Eventually(t, "what was admitted is charged", charged)
	nodetest.Eventually(t, "the other node decides exactly", func() bool {
		return a.check(`{"path": "/window", "user": "somebody else"}`).Quality == "exact"
	})
	for _, path := range paths[:2] {
		if ok, left := check(a, path); !ok || left != 1 {
			t.Errorf("%s after the outage: allowed %v, %d left, want 1: 5 + 3 were admitted before this one", path, ok, left)
		}
	}
}

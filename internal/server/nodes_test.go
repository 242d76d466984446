package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// nodes returns the nodes that a node reports, by name, or by ID if they have none.
func (n *node) nodes() (names string, all map[string]admin.Node) {
	n.t.Helper()
	answer, body := n.get(n.url("admin", "/v1/nodes"), "Authorization", "Bearer "+n.token)
	var told admin.Nodes
	if err := json.Unmarshal([]byte(body), &told); err != nil || answer.StatusCode != http.StatusOK {
		n.t.Fatalf("%s: %v: %s", answer.Status, err, body)
	}
	all = map[string]admin.Node{}
	for _, one := range told.Nodes {
		name := one.ID
		if one.About != nil {
			name = one.About.Name
		}
		names += name + " "
		all[name] = one
	}
	return strings.TrimSpace(names), all
}

// Nodes on one Redis know each other by name, rules and quality. A node that ends disappears, and nothing that
// others write there becomes a node.
func TestNodesKnowEachOther(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := "rules: {file: " + nodetest.RulesFile(t, "rules: [{name: per-user, key: [user], limits: [5/1h]}]") + "}\n"
	yaml := nodetest.OnRedis("single", redis.Addr)
	a, b := startNode(t, yaml+file+"node_name: a"), startNode(t, yaml+file+"node_name: b")
	c := startNode(t, yaml+"node_name: c\nnodes: 7") // with rules of its own, and told how many there are
	for _, n := range []*node{b, c} {
		nodetest.Eventually(t, "a node knows the others", func() bool {
			names, all := n.nodes()
			return len(all) == 3 && strings.HasPrefix(names, n.statusNow().Node)
		})
	}
	nodetest.Eventually(t, "what they say is so", func() bool {
		names, all := a.nodes()
		if names != "a b c" {
			return false
		}
		b, c, here := all["b"].About, all["c"].About, a.statusNow()
		return b.Rules == "different" && c.Rules == "current" && c.RulesVersion == 1 && c.Quality == "exact" &&
			b.RulesChecksum == here.Rules.Checksum[:16] && b.Version == here.Build.Version
	})
	if n := c.statusNow().Store.Nodes; n != 7 {
		t.Errorf("who is told that there are 7 nodes counts %d", n)
	}

	b.stop()
	<-b.done
	b.Close()
	nodetest.Eventually(t, "who has ended is gone; what others write counts, and is told without what it says", func() bool {
		writeNonsense(t, redis.Addr)
		_, all := a.nodes()
		return a.statusNow().Store.Nodes == 6 && len(all) == 5 && all["b"].ID == "" &&
			all["HOSTILE"].ID != "" && all["LONG"].ID != "" && all["TWO"].ID != "" && all["TWO"].About == nil
	})
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "without Redis it says that it is degraded, and what it last heard", func() bool {
		names, all := a.nodes()
		return all["a"].About.Quality == "degraded" && strings.HasPrefix(names, "a c ")
	})
}

// writeNonsense writes entries that no node would write to where nodes look for each other.
func writeNonsense(t *testing.T, redis string) {
	t.Helper()
	ask := func(command ...string) string {
		t.Helper()
		reply, err := redistest.Command(redis, command...)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	now := strings.Fields(ask("TIME"))[0]
	for id, said := range map[string]string{
		"<script>alert(1)</script>": "",
		"HOSTILE":                   `{"v":1,"name":"<img src=x onerror=alert(1)>","version":"1","checksum":"1","quality":"exact"}`,
		"LONG":                      strings.Repeat("x", 10_000),
		"TWO":                       `{"v":2,"name":"later"}`,
	} {
		ask("ZADD", "pen:nodes", now, id)
		ask("HSET", "pen:{pen:nodes}", id, said)
	}
}

// In memory there is one node, which has a name.
func TestOneNodeInMemory(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	name := n.statusNow().Node
	if names, all := n.nodes(); names != name || len(all) != 1 || !all[name].Self || all[name].About.Rules != "current" {
		t.Errorf("%q is not %q", names, name)
	}
}

// A reset or lifted ban on one node reaches the others too: when Redis becomes unavailable, no client is denied
// for what was reset before.
func TestResetReachesAllNodes(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	yaml := nodetest.OnRedis("single", redis.Addr) + "nodes: 2\nrules: {file: " + nodetest.RulesFile(t, `
rules:
  - {name: windows, match: {path: /window}, key: [user], limits: [{rate: 1/1d, algorithm: fixed_window}, {rate: 1/1h, algorithm: sliding_window_log}]}
  - {name: bans, match: {path: /bans}, key: [user], limits: [{rate: 1/1d, algorithm: fixed_window}], penalty: {after: 2, within: 1h, bans: [1h]}}
`) + "}"
	a, b := startNode(t, yaml), startNode(t, yaml)
	for _, n := range []*node{a, b} {
		nodetest.Eventually(t, "the store is connected", func() bool { return n.statusNow().Store.Connected })
	}
	check := func(path, user string) (reason string) {
		return b.check(`{"path": "` + path + `", "user": "` + user + `"}`).Reason
	}
	for _, user := range []string{"reset", "kept"} {
		for range 3 {
			check("/window", user)
			check("/bans", user)
		}
		if w, s := check("/window", user), check("/bans", user); w != "over_limit" || s != "banned" {
			t.Fatalf("before the reset: %s, %s", w, s)
		}
	}
	for _, do := range []struct{ method, path, rule string }{{"POST", "/v1/keys/reset", "windows"}, {"DELETE", "/v1/bans", "bans"}} {
		if code := a.askAdmin(do.method, do.path, `{"rule": "`+do.rule+`", "attributes": {"user": "reset"}}`, nil); code != http.StatusOK {
			t.Fatalf("%s: status %d", do.path, code)
		}
	}
	now, err := strconv.Atoi(strings.Fields(nodetest.RedisCommand(t, redis.Addr, "TIME"))[0])
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "both nodes have asked what was reset", func() bool { // less than a second before they say that they are alive
		return nodetest.RedisCommand(t, redis.Addr, "ZCOUNT", "pen:nodes", strconv.Itoa(now+2), "+inf") == "2"
	})
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, want := range map[[2]string]string{
		{"/window", "reset"}: "ok", {"/window", "kept"}: "over_limit",
		{"/bans", "reset"}: "over_limit", {"/bans", "kept"}: "banned",
	} {
		if got := check(what[0], what[1]); got != want {
			t.Errorf("%s of user %s: %s, want %s", what[0], what[1], got, want)
		}
	}
}

// A denial under a limit that counts all requests is cached for a minute, but not beyond a reset on another node.
func TestResetEndsCachedDenials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nodetest.WriteFile(t, filepath.Join(dir, "limits.yaml"), "domain: mesh\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]")
	yaml := nodetest.OnRedis("single", redistest.Start(t).Addr) + fmt.Sprintf("rules: {envoy_ratelimit: %q}\nlisten: {gateway: ''}", dir)
	a, b := startNode(t, yaml), startNode(t, yaml)
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		if got := b.asEnvoy("u"); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	if b.store.Denied.Stats().Hits != 1 {
		t.Errorf("the last denial is not from the cache: %+v", b.store.Denied.Stats())
	}
	if code := a.askAdmin("POST", "/v1/keys/reset", `{"rule": "mesh.user", "attributes": {"user": "u"}}`, nil); code != http.StatusOK {
		t.Fatalf("reset: status %d", code)
	}
	nodetest.Eventually(t, "the other node asks Redis again", func() bool { return b.asEnvoy("u") == http.StatusOK })
}

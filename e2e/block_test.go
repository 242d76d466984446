package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/stack"
	"github.com/penstock-io/penstock/stack/database"
)

// operate runs a penstock command against a node.
func (n *node) operate(args ...string) output {
	n.t.Helper()
	return run(n.dir, []string{"PENSTOCK_TOKEN=" + adminToken, "PENSTOCK_ADMIN_SERVER=" + n.url("admin", "")}, append(args, "--timeout", "60s")...)
}

// block runs a penstock block command against a node. It must succeed.
func (n *node) block(args ...string) output {
	n.t.Helper()
	out := n.operate(append([]string{"block"}, args...)...)
	if out.code != 0 {
		n.t.Fatalf("penstock block %v: exit status %d: %s%s", args, out.code, out.stdout, out.stderr)
	}
	return out
}

// reason asks the decision API about a user, and returns why it decided as it did.
func (n *node) reason(user string) string {
	n.t.Helper()
	a := n.send(http.MethodPost, "http", "/v1/check", fmt.Sprintf(`{"attributes": {"user": %q}, "cost": 0}`, user), "Content-Type: application/json")
	var told struct{ Reason string }
	if err := json.Unmarshal(a.body, &told); err != nil {
		n.t.Fatalf("%v: %s", err, a.body)
	}
	return told.Reason
}

// Three nodes, of which two have the database and one only Redis: a block on any of them holds on all, at every
// listener, while Redis is down and after a restart, until it is lifted on another.
func TestBlocksReachEveryNode(t *testing.T) {
	t.Parallel()
	database, err := pgtest.Start(t).Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, database, perUser(1000, "sliding_window_log"))
	server := redistest.Start(t)
	redis, up := onRedis("single", server.Addr), newUpstream(t).config()
	ofDatabase, ofRedis := "rules: {database: '"+database+"'}", "rules: {redis: true, poll_interval: 100ms}"
	a, b := start(t, redis, up, ofDatabase), start(t, redis, up, ofDatabase)
	eventually(t, "the rules are in Redis", func() bool { return strings.Contains(nodetest.RedisCommand(t, server.Addr, "KEYS", "*"), "pen:rules") })
	c := start(t, redis, up, ofRedis)
	all := []*node{a, b, c}
	hold := func(user, reason string, on ...*node) {
		t.Helper()
		for i, n := range on {
			eventually(t, fmt.Sprintf("%s at node %d", reason, i), func() bool { return n.reason(user) == reason })
		}
	}
	for _, n := range all {
		n.awaitStore()
	}
	hold("u1", "ok", all...)

	// Added at the node that has only Redis.
	out := c.block("add", "user=u1", "--for", "1h", "--reason", "stolen token")
	if !strings.HasPrefix(out.stdout, `blocked  user="u1"  until `) {
		t.Errorf("%+v", out)
	}
	hold("u1", "blocked", all...)
	hold("u2", "ok", all...)
	for _, n := range all {
		told := n.get("gateway", "/", "X-User: u1")
		var problem struct {
			Error, Detail string
			Wait          int `json:"retry_after_seconds"`
		}
		if err := json.Unmarshal(told.body, &problem); err != nil {
			t.Fatalf("%v: %s", err, told.body)
		}
		if told.StatusCode != http.StatusTooManyRequests || problem.Error != "blocked" || !strings.HasPrefix(problem.Detail, "Blocked by an operator; retry in ") ||
			problem.Wait < 1 || problem.Wait > 3600 || told.Header.Get("Retry-After") != fmt.Sprint(problem.Wait) || strings.Contains(string(told.body), "stolen") {
			t.Errorf("the gateway says %s %v: %s", told.Status, told.Header, told.body)
		}
		var v penstock.Verdict
		call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: "u1"}}}
		if err := n.grpc.Decide(t.Context(), &call, &v); err != nil || v.Reason != penstock.ReasonBlocked || v.BannedUntil == 0 {
			t.Errorf("gRPC says %+v, %v", v, err)
		}
	}
	enforces := func(count int, on ...*node) {
		t.Helper()
		for i, n := range on {
			eventually(t, fmt.Sprintf("node %d reports %d blocks", i, count), func() bool {
				metrics := n.get("admin", "/metrics", "Authorization: Bearer "+adminToken).body
				return strings.Contains(string(metrics), fmt.Sprintf("\npenstock_blocks %d\n", count))
			})
		}
	}
	enforces(1, all...)
	if list := a.block("list").stdout; !strings.Contains(list, `user="u1"`) || !strings.Contains(list, "stolen token") || !strings.Contains(list, " at 127.") {
		t.Errorf("listed as\n%s", list)
	}
	explained := run(a.dir, []string{"PENSTOCK_TOKEN=" + adminToken}, "explain", "--server", a.url("admin", ""), "user=u1")
	if explained.code != 0 || !strings.HasPrefix(explained.stdout, "An operator has blocked this client until ") {
		t.Errorf("explained as %+v", explained)
	}

	// It holds while Redis is down, and a node of the database learns of another one meanwhile.
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	hold("u1", "blocked", all...)
	a.block("add", "user=u3", "--for", "1h", "--reason", "x")
	hold("u3", "blocked", a, b)
	b.terminate()
	b.awaitEnd()
	b = startIn(t, b.dir, redis, up, ofDatabase)
	hold("u1", "blocked", b)
	hold("u3", "blocked", b)
	if err := server.Restart(); err != nil { // it has lost everything
		t.Fatal(err)
	}
	hold("u3", "blocked", c)
	enforces(2, a, b, c)

	// Lifted at another node than it was added.
	if out := b.block("lift", "user=u1"); out.stdout != "lifted  user=\"u1\"\n" {
		t.Errorf("%+v", out)
	}
	hold("u1", "ok", a, b, c)
	hold("u3", "blocked", a, b, c)
	enforces(1, a, b, c)
	if a.logged("u1") || a.logged("stolen") {
		t.Error("the log names who is blocked")
	}
}

// A node with files of envoyproxy/ratelimit denies blocked descriptors, in shadow mode and without a limit too, and one
// without Redis keeps its blocks over a restart.
func TestBlocksOfDescriptors(t *testing.T) {
	t.Parallel()
	files := envoyFiles(t)
	up := newUpstream(t).config()
	n := start(t, files, up)
	for _, key := range []string{"user", "tried", "free", "other"} {
		if code, _ := n.describe(key, "v1"); code != http.StatusOK {
			t.Errorf("%s before a block: %d", key, code)
		}
		n.block("add", key+"=v1", "--for", "1h", "--reason", "x")
		if code, _ := n.describe(key, "v1"); code != http.StatusTooManyRequests {
			t.Errorf("%s blocked: %d", key, code)
		}
		if code, _ := n.describe(key, "v2"); code != http.StatusOK {
			t.Errorf("another value of %s: %d", key, code)
		}
	}
	n.terminate()
	n.awaitEnd()
	n = startIn(t, n.dir, files, up)
	if code, _ := n.describe("user", "v1"); code != http.StatusTooManyRequests {
		t.Errorf("after a restart: %d", code)
	}
	n.block("lift", "user=v1")
	if code, _ := n.describe("user", "v1"); code != http.StatusOK {
		t.Errorf("after the lift: %d", code)
	}
}

// What an operator blocks at a node holds in Go programs built with package stack too, through Redis or the database,
// until it is lifted.
func TestBlocksReachPrograms(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	document := perUser(1000, "sliding_window_log")
	source := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	apply(t, source, document)
	n := start(t, onRedis("single", server.Addr), newUpstream(t).config(), "rules: {database: '"+source+"'}")
	n.awaitStore()
	origin, err := database.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	file := writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), document)
	for name, c := range map[string]stack.Config{
		"redis":    {Rules: file, Redis: redisstore.Options{Addresses: []string{server.Addr}, Timeout: patient}},
		"database": {Origin: origin},
	} {
		t.Run(name, func(t *testing.T) {
			c.Secret, c.Log = "0123456789abcdef0123456789abcdef", slog.New(slog.DiscardHandler)
			program, err := stack.Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			told := func(user string) func() bool {
				return func() bool {
					var v penstock.Verdict
					call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: user}}}
					if err := program.Decide(t.Context(), &call, &v); err != nil && !errors.Is(err, penstock.ErrUnavailable) {
						t.Error(err)
					}
					return v.Reason == penstock.ReasonBlocked
				}
			}
			if told(name)() {
				t.Error("blocked before the block")
			}
			n.block("add", "user="+name, "--for", "1h", "--reason", "x")
			eventually(t, "the program enforces the block", told(name))
			if told("u2")() {
				t.Error("another client is blocked")
			}
			n.block("lift", "user="+name)
			eventually(t, "the program follows the lift", func() bool { return !told(name)() })
		})
	}
}

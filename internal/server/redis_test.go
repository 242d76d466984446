package server

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// exactly sends requests to all nodes at once; want of them must pass.
func exactly(t *testing.T, want int, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		nodetest.Eventually(t, "the node is connected to Redis", func() bool { return n.statusNow().Store.Connected })
	}
	passed := nodetest.Together(30*len(nodes), func(i int) bool {
		v := nodes[i%len(nodes)].check(`{"user": "u1"}`)
		if v.Quality != "exact" {
			t.Errorf("got %+v", v)
		}
		return v.Allowed
	})
	if passed != want {
		t.Errorf("%d passed, want %d", passed, want)
	}
}

func TestNodesShareTheLimit(t *testing.T) {
	t.Parallel()
	file := nodetest.RulesFile(t, fmt.Sprintf(perUser, 20))
	t.Run("single", func(t *testing.T) {
		yaml := nodetest.OnRedis("single", redistest.Start(t).Addr) + "rules: {file: " + file + "}"
		exactly(t, 20, startNode(t, yaml), startNode(t, yaml), startNode(t, yaml))
	})
	t.Run("cluster", func(t *testing.T) {
		yaml := nodetest.OnRedis("cluster", redistest.StartCluster(t, 3).Addrs...) + "rules: {file: " + file + "}"
		exactly(t, 20, startNode(t, yaml), startNode(t, yaml))
	})
}

// A node starts without Redis, decides alone, and shares counters once Redis is available.
func TestStartWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, nodetest.OnRedis("single", redis.Addr)+"rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 2))+"}")
	nodetest.Eventually(t, "the node is ready anyway", func() bool { return n.statusNow().Ready })
	var allowed int
	for range 3 {
		v := n.check(`{"user": "u1"}`)
		if v.Quality != "local" {
			t.Errorf("got %+v, want a local verdict", v)
		}
		if v.Allowed {
			allowed++
		}
	}
	if allowed != 2 {
		t.Errorf("%d of 3 passed, want 2", allowed)
	}
	if !strings.Contains(n.log.String(), `"msg":"the store failed"`) || !strings.Contains(n.log.String(), `"redis_key":"pen:{`) {
		t.Error("the log does not say whose state could not be had")
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	nodetest.Eventually(t, "Redis connected", func() bool { return n.check(`{"user": "u2"}`).Quality == "exact" })
}

// Rules go from the database of one node through Redis to another that has none.
func TestRulesThroughRedis(t *testing.T) {
	t.Parallel()
	yaml := nodetest.OnRedis("single", redistest.Start(t).Addr)
	first := startNode(t, yaml+"rules: {database: 'sqlite:"+filepath.Join(t.TempDir(), "rules.db")+"'}")
	second := startNode(t, yaml+"rules: {redis: true}")
	want := first.statusNow().Rules
	if want.Rules == 0 {
		t.Fatalf("the first node has no rules: %+v", want)
	}
	nodetest.Eventually(t, "the second node has the rules of the first", func() bool {
		got := second.statusNow().Rules
		return got.Checksum == want.Checksum && got.Version == want.Version
	})
}

// Redis is slower than the timeout of a decision: the rule's failure policy decides instead.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n := startNode(t, impatient(nodetest.OnRedis("single", silent.Addr().String()))+"rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 2))+"}")
	if v := n.check(`{"user": "u1"}`); !v.Allowed || v.Quality != "local" {
		t.Errorf("got %+v", v)
	}
}

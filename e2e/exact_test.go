package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/redistest"
)

const limit = 10

// perUser is the limit of the tests. Its window is long, so that a slow machine does not affect them.
func perUser(count int, algorithm string) string {
	return fmt.Sprintf(`
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: %d/30d, algorithm: %s}]}]
`, count, algorithm)
}

// rulesFile configures rules from a new file.
func rulesFile(t *testing.T, text string) (config string) {
	t.Helper()
	return "rules: {file: " + writeFile(t, filepath.Join(t.TempDir(), "rules.yaml"), text) + "}"
}

// onRedis configures a store in Redis, with time enough that no verdict is only local.
func onRedis(mode string, addresses ...string) (config string) {
	return fmt.Sprintf("store: {redis: {mode: %s, addresses: ['%s'], timeout: 20s}}", mode, strings.Join(addresses, "', '"))
}

// stores are the possible stores, and how many nodes can share each.
var stores = []struct {
	name   string
	nodes  int
	config func(*testing.T) string
}{
	{"memory", 1, func(*testing.T) string { return "" }},
	{"redis", 3, func(t *testing.T) string { return onRedis("single", redistest.Start(t).Addr) }},
	{"cluster", 3, func(t *testing.T) string { return onRedis("cluster", redistest.StartCluster(t, 3).Addrs...) }},
}

// startAll starts nodes with the same configuration.
func startAll(t *testing.T, count int, parts ...string) []*node {
	t.Helper()
	var nodes []*node
	for range count {
		n := start(t, parts...)
		n.awaitStore()
		nodes = append(nodes, n)
	}
	return nodes
}

// Of many concurrent requests exactly the limit passes, and none after them: over every API, on one node and
// spread over three.
func TestExactlyTheLimitPasses(t *testing.T) {
	t.Parallel()
	algorithms, rounds := []string{"sliding_window_log"}, 1
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		algorithms, rounds = []string{"sliding_window_log", "fixed_window", "token_bucket"}, 10
	}
	for _, store := range stores {
		t.Run(store.name, func(t *testing.T) {
			config := store.config(t)
			for _, algorithm := range algorithms {
				up := newUpstream(t)
				nodes := startAll(t, store.nodes, config, up.config(), rulesFile(t, perUser(limit, algorithm)))
				for round := range rounds {
					for among := 1; among <= len(nodes); among += 2 {
						name := fmt.Sprintf("%s, %d of %d nodes, %d", algorithm, among, len(nodes), round)
						t.Run(name, func(t *testing.T) { admitExactly(t, nodes[:among], up, name) })
					}
				}
			}
		})
	}
}

// The test above would notice nodes that do not share, and requests that are not spread.
func TestNodesAloneAdmitTheLimitEach(t *testing.T) {
	t.Parallel()
	nodes := startAll(t, 3, newUpstream(t).config(), rulesFile(t, perUser(limit, "sliding_window_log")))
	atEveryDoor(t, func(t *testing.T, d decisionAPI) {
		passed := together(120/d.calls, func(i int) int { return d.ask(nodes[i%len(nodes)], "at "+d.name) })
		if passed != limit*len(nodes) {
			t.Errorf("%d calls passed, want %d of each of %d nodes", passed, limit, len(nodes))
		}
	})
}

func admitExactly(t *testing.T, nodes []*node, up *upstream, name string) {
	atEveryDoor(t, func(t *testing.T, d decisionAPI) {
		for _, simultaneous := range []int{50, 100} {
			user := fmt.Sprintf("%s at %s, %d", name, d.name, simultaneous)
			passed := together(simultaneous/d.calls, func(i int) int { return d.ask(nodes[i%len(nodes)], user) })
			if passed != limit {
				t.Errorf("%d of %d simultaneous calls passed, want %d", passed, simultaneous, limit)
			}
			spent(t, nodes, d, user)
			if served := up.served(user); d.name == "gateway" && served != limit {
				t.Errorf("%d calls reached the server behind the gateway, want %d", served, limit)
			}
		}
	})
	t.Run("all doors at once", func(t *testing.T) {
		user := name + " everywhere"
		if passed := together(len(doors)*6, func(i int) int { return doors[i%len(doors)].ask(nodes[i%len(nodes)], user) }); passed != limit {
			t.Errorf("%d calls passed at all doors together, want %d", passed, limit)
		}
		spent(t, nodes, doors[0], user)
	})
}

// spent checks a user who has used up the limit: every node says so and allows nothing more.
func spent(t *testing.T, nodes []*node, d decisionAPI, user string) {
	t.Helper()
	for i, n := range nodes {
		if v := n.peek(user); v.used("per-user") != limit || v.Quality != "exact" {
			t.Errorf("node %d says %+v, want %d used", i, v, limit)
		}
		if d.ask(n, user) != 0 {
			t.Errorf("node %d lets one more pass", i)
		}
	}
}

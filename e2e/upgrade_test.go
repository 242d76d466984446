package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/nodetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// nextVersion is the version of the program after the upgrade.
const nextVersion = "999.0.0-next"

// buildNext builds that program.
func buildNext(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "penstock-next")
	if err := nodetest.Build(path, nil, "-ldflags", "-s -w -X github.com/penstock-io/penstock/internal/buildinfo.version="+nextVersion); err != nil {
		t.Fatal(err)
	}
	return path
}

// A balancer sends requests to its nodes.
type balancer struct {
	parts []string // of the nodes' configuration
	mu    sync.Mutex
	nodes []*member
	next  int
}

type member struct {
	*node
	calls sync.WaitGroup // under way
}

// start starts a node that runs the program at the path.
func (b *balancer) start(t *testing.T, path string) *node {
	t.Helper()
	dir := t.TempDir()
	config := writeFile(t, filepath.Join(dir, "penstock.yaml"), common+strings.Join(b.parts, "\n"))
	c := command(dir, "serve", "--config", config, "--listen-gateway", "")
	c.Path = path
	n := launchCommand(t, dir, c)
	n.awaitStore()
	if is := n.version(); (is == nextVersion) != (path != program) {
		t.Fatalf("version %q was started from %s", is, path)
	}
	return n
}

func (b *balancer) add(n *node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nodes = append(b.nodes, &member{node: n})
}

// remove takes the oldest node out, and returns it when its last request is answered.
func (b *balancer) remove() *node {
	b.mu.Lock()
	oldest := b.nodes[0]
	b.nodes = slices.Delete(b.nodes, 0, 1)
	b.mu.Unlock()
	oldest.calls.Wait()
	return oldest.node
}

// decide sends a request to the next node.
func (b *balancer) decide(c *penstock.Call, v *penstock.Verdict) error {
	b.mu.Lock()
	b.next++
	m := b.nodes[b.next%len(b.nodes)]
	m.calls.Add(1)
	b.mu.Unlock()
	defer m.calls.Done()
	return m.http.Decide(m.t.Context(), c, v)
}

// Three nodes on one Redis are replaced one by one by another version, and that by the first again, under
// constant load: no request fails, each is decided exactly, and exactly the limit passes.
func TestRollingUpgradeAndBack(t *testing.T) {
	t.Parallel()
	const limit, step, callers = 2500, 200, 8
	parts := []string{rulesFile(t, perUser(limit, "sliding_window_counter")), onRedis("single", redistest.Start(t).Addr)}
	all := balancer{parts: parts}
	for range 3 {
		all.add(all.start(t, program))
	}

	var mu sync.Mutex
	passed, denied := 0, 0
	work := make(chan struct{})
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: "u"}}}
			var v penstock.Verdict
			for range work {
				err := all.decide(&call, &v)
				mu.Lock()
				switch {
				case err != nil || v.Quality != penstock.QualityExact:
					t.Errorf("after %d calls: %v, quality %v", passed+denied, err, v.Quality)
				case v.Allowed:
					passed++
				default:
					denied++
				}
				mu.Unlock()
			}
		})
	}
	defer calling.Wait()
	defer close(work)
	// during sends requests while something happens.
	during := func(happens func()) {
		var sent sync.WaitGroup
		sent.Go(func() {
			for range step {
				work <- struct{}{}
			}
		})
		defer sent.Wait()
		happens()
	}

	next := buildNext(t)
	for _, path := range []string{next, next, next, program, program, program} {
		during(func() { all.add(all.start(t, path)) })
		during(func() {
			old := all.remove()
			old.terminate()
			old.awaitEnd()
		})
	}
	mu.Lock()
	if passed+denied < 11*step { // the last are under way
		t.Errorf("only %d calls came in", passed+denied)
	}
	mu.Unlock()
	for range limit {
		work <- struct{}{}
	}
	eventually(t, "all calls are answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return passed+denied == 12*step+limit || t.Failed()
	})
	if passed != limit {
		t.Errorf("%d passed, want %d", passed, limit)
	}
}

// version is what the node says that it is.
func (n *node) version() string {
	n.t.Helper()
	var s struct{ Build struct{ Version string } }
	a := n.get("admin", "/v1/status", "Authorization: Bearer "+adminToken)
	if err := json.Unmarshal(a.body, &s); err != nil {
		n.t.Fatalf("status: %s: %v: %s", a.Status, err, a.body)
	}
	return s.Build.Version
}

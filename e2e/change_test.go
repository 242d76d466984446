package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A load is a stream of requests to a gateway, each of which must be allowed or denied.
type load struct {
	n     *node
	asked atomic.Int64
	stop  atomic.Bool
	ended sync.WaitGroup
}

func startLoad(n *node) *load {
	l := &load{n: n}
	for i := range 8 {
		l.ended.Go(func() {
			for ; !l.stop.Load(); time.Sleep(time.Millisecond) {
				askGateway(n, fmt.Sprint("load ", i))
				l.asked.Add(1)
			}
		})
	}
	return l
}

// await returns when new requests have arrived.
func (l *load) await(t *testing.T) {
	t.Helper()
	before := l.asked.Load()
	eventually(t, "calls go on", func() bool { return l.asked.Load() >= before+16 })
}

func (l *load) end() {
	l.stop.Store(true)
	l.ended.Wait()
}

// inForce checks the limit that a node enforces, and that earlier usage is not lost.
func inForce(t *testing.T, n *node, count, before int) {
	t.Helper()
	if passed := together(3*count, func(int) int { return askGateway(n, "early") }); passed != count-before {
		t.Errorf("%d more calls passed of a user who had %d of now %d", passed, before, count)
	}
	if passed := together(3*count, func(int) int { return askGateway(n, "late") }); passed != count {
		t.Errorf("%d calls passed, want %d", passed, count)
	}
}

// A file is replaced repeatedly under load. No request fails, the last file is in force in the end, and a broken
// one changes nothing.
func TestRulesFileChangesUnderLoad(t *testing.T) {
	t.Parallel()
	const most = 20
	file := filepath.Join(t.TempDir(), "rules.yaml")
	replace := func(count int) { writeFile(t, file, perUser(count, "sliding_window_log")) }
	replace(5)
	n := start(t, newUpstream(t).config(), "rules: {file: "+file+", poll_interval: 100ms}")
	if passed := together(20, func(int) int { return askGateway(n, "early") }); passed != 5 {
		t.Errorf("%d calls passed, want 5", passed)
	}
	calls := startLoad(n)
	defer calls.end()
	for count := 1; count <= most; count++ {
		before := n.status().Rules.Checksum
		replace(count)
		eventually(t, fmt.Sprintf("file %d is served", count), func() bool { return n.status().Rules.Checksum != before })
		calls.await(t)
	}
	writeFile(t, file, "rules: [{nmae: broken}]")
	eventually(t, "the broken file is refused", func() bool { return n.status().Rules.Refused != "" })
	calls.await(t)
	inForce(t, n, most, 5)
}

// The same with versions in a database, saved by the command that people use.
func TestDatabaseChangesUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		changeDatabase(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		database, err := pgtest.Start(t).Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		changeDatabase(t, database)
	})
}

func changeDatabase(t *testing.T, database string) {
	const versions = 5
	apply(t, database, perUser(3, "sliding_window_log"))
	n := start(t, newUpstream(t).config(), "rules: {database: '"+database+"', poll_interval: 100ms}")
	if passed := together(20, func(int) int { return askGateway(n, "early") }); passed != 3 {
		t.Errorf("%d calls passed, want 3", passed)
	}
	calls := startLoad(n)
	defer calls.end()
	for version := int64(2); version <= versions; version++ {
		apply(t, database, perUser(int(10*version), "sliding_window_log"))
		eventually(t, fmt.Sprintf("version %d is served", version), func() bool { return n.status().Rules.Version == version })
		calls.await(t)
	}
	inForce(t, n, 10*versions, 3)
}

// Of three nodes one has the database: the others learn its rules through Redis, under load too.
func TestRulesReachEveryNode(t *testing.T) {
	t.Parallel()
	database := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	apply(t, database, perUser(3, "sliding_window_log"))
	redis, up := onRedis("single", redistest.Start(t).Addr), newUpstream(t).config()
	nodes := []*node{start(t, redis, up, "rules: {database: '"+database+"', poll_interval: 100ms}")}
	for range 2 {
		nodes = append(nodes, start(t, redis, up, "rules: {redis: true, poll_interval: 100ms}"))
	}
	reached := func(version int64) {
		for i, n := range nodes {
			n.awaitStore()
			eventually(t, fmt.Sprintf("node %d has version %d", i, version), func() bool { return n.status().Rules.Version == version })
		}
	}
	reached(1)
	for _, n := range nodes {
		calls := startLoad(n)
		defer calls.end()
	}
	apply(t, database, perUser(limit, "sliding_window_log"))
	reached(2)
	if passed := together(5*limit, func(i int) int { return askGateway(nodes[i%3], "u") }); passed != limit {
		t.Errorf("%d calls passed on three nodes, want %d", passed, limit)
	}
}

// apply saves rules as the next version.
func apply(t *testing.T, database, text string) {
	t.Helper()
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "rules.yaml"), text)
	if out := run(dir, nil, "rules", "apply", file, "--database", database, "--author", "e2e", "-m", "a test"); out.code != 0 {
		t.Fatalf("rules apply: exit status %d: %s%s", out.code, out.stdout, out.stderr)
	}
}

package entitlement

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/ruledb"
)

func newOrigin(t *testing.T, source string) *ruledb.Origin {
	t.Helper()
	origin, err := ruledb.NewOrigin(source, ruledb.Options{Patience: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { origin.Close() })
	return origin
}

func follow(t *testing.T, origin *ruledb.Origin, o Options) *Entitlements {
	t.Helper()
	e, err := Follow(t.Context(), origin, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func save(t *testing.T, origin *ruledb.Origin, c ruledb.EntitlementChange) {
	t.Helper()
	c.Author = "ann"
	db, err := origin.DB(t.Context())
	if err == nil {
		_, err = db.SaveEntitlements(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func set(value string, number int64) ruledb.EntitlementChange {
	return ruledb.EntitlementChange{Set: []ruledb.Entitlement{{EntitlementKey: ruledb.EntitlementKey{Attribute: "tenant", Value: value, Name: "requests"}, Number: number}}}
}

// await waits until a tenant has a number; -1: none.
func await(t *testing.T, e *Entitlements, value string, want int64) {
	t.Helper()
	got := int64(-2)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found, ok := e.Entitlement("tenant", value, "requests")
		if got = found.Number; !ok {
			got = -1
		}
		if got == want {
			return
		}
	}
	t.Fatalf("%s has %d, want %d: %+v", value, got, want, e.Status())
}

// Three nodes learn of rows that are set, changed and deleted by any of them.
func TestThreeNodesFollow(t *testing.T) {
	t.Parallel()
	sources := map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "rules.db") },
		"postgres": func(t *testing.T) string {
			child.SkipUnit(t)
			s, err := pgtest.Launch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			source, err := s.Database(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return source
		},
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			source := source(t)
			var origins []*ruledb.Origin
			var nodes []*Entitlements
			for range 3 {
				origins = append(origins, newOrigin(t, source))
				nodes = append(nodes, follow(t, origins[len(origins)-1], Options{}))
			}
			for i, origin := range origins {
				save(t, origin, set("acme", int64(100+i)))
				save(t, origin, set(fmt.Sprint("other-", i), 5))
				for _, node := range nodes {
					await(t, node, "acme", int64(100+i))
					await(t, node, fmt.Sprint("other-", i), 5)
				}
			}
			save(t, origins[0], ruledb.EntitlementChange{Delete: []ruledb.EntitlementKey{{Attribute: "tenant", Value: "acme", Name: "requests"}}})
			for _, node := range nodes {
				await(t, node, "acme", -1)
				if got := node.Status(); got.Rows != 3 || got.Err != nil || got.Read.IsZero() {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

// A node that starts before its database has no rows, and reads them when it can. One whose database fails keeps them.
func TestDatabaseFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not-yet")
	source := "sqlite:" + filepath.Join(dir, "rules.db")
	statuses := make(chan Status, 10)
	node := follow(t, newOrigin(t, source), Options{Changed: func(s Status) { statuses <- s }})
	if got := <-statuses; got.Err == nil || !got.Read.IsZero() || got.Rows != 0 {
		t.Fatalf("without a database: %+v", got)
	}
	await(t, node, "acme", -1)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	writer := newOrigin(t, source)
	save(t, writer, set("acme", 7))
	await(t, node, "acme", 7)
	if got := <-statuses; got.Err != nil || got.Read.IsZero() {
		t.Fatalf("with a database: %+v", got)
	}
	db, err := node.origin.DB(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-statuses; got.Err == nil || got.Rows != 1 {
		t.Errorf("after the database failed: %+v", got)
	}
	await(t, node, "acme", 7)
}

// A node that was away while deleted rows were removed for good loads all rows again, and its old rows stay until then.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	source := "sqlite:" + filepath.Join(t.TempDir(), "rules.db")
	origin := newOrigin(t, source)
	save(t, origin, set("acme", 7))
	save(t, origin, set("gone", 8))
	node := follow(t, origin, Options{Interval: time.Hour})
	await(t, node, "gone", 8)
	save(t, newOrigin(t, source), set("acme", 9))
	node.mu.Lock()
	node.status.Change = 1 << 40 // as if the database had been restored from a backup
	node.mu.Unlock()
	node.apply(node.parts.Load(), []ruledb.ChangedEntitlement{changed("tenant", "made-up", "requests", 1)})
	node.read(t.Context())
	await(t, node, "acme", 9)
	await(t, node, "made-up", -1)
	if got := node.Status(); got.Rows != 2 || got.Err != nil || got.Change != 3 {
		t.Errorf("%+v", got)
	}
}

// Rows arrive in pages: thirty thousand by default, a million in the long suite.
func TestLoadManyRows(t *testing.T) {
	t.Parallel()
	rows := 30_000
	if testing.Short() {
		t.Skip("a long list adds nothing to the race detector")
	}
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		rows = 1_000_000
	}
	origin := newOrigin(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db"))
	for at := 0; at < rows; at += ruledb.MaxEntitlementChange {
		var c ruledb.EntitlementChange
		for i := range ruledb.MaxEntitlementChange {
			c.Set = append(c.Set, set(fmt.Sprint("tenant-", at+i), int64(at+i)).Set...)
		}
		save(t, origin, c)
	}
	node := follow(t, origin, Options{Timeout: 10 * time.Minute})
	if got := node.Status(); got.Rows != rows || got.Err != nil {
		t.Fatalf("%+v", got)
	}
	save(t, origin, set("tenant-3141", 1))
	await(t, node, "tenant-3141", 1)
	await(t, node, "tenant-27182", 27182)
}

// A closed context ends a node quietly.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	origin := newOrigin(t, "sqlite:"+filepath.Join(t.TempDir(), "rules.db"))
	ctx, cancel := context.WithCancel(t.Context())
	e, err := Follow(ctx, origin, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // bounds only the start
	save(t, origin, set("acme", 7))
	await(t, e, "acme", 7)
	e.Close()
}

package denycache_test

import (
	"os"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storetest"
)

// The suite compares every number of every answer, and those of a cache are up to a second old. So it runs
// against a node that learns of every change at once: then the cache must be invisible.

func TestContractInMemory(t *testing.T) {
	t.Parallel()
	steps := 50_000
	if testing.Short() {
		steps = 10_000
	}
	contract(t, steps, true, func(t testing.TB) storetest.CompleteStore { return newMemstore(t) })
}

func TestContractInRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	whole := os.Getenv("PENSTOCK_TEST_LONG") == "1"
	contract(t, 10_000, whole, func(t testing.TB) storetest.CompleteStore { return newRedisstore(t, server) })
}

// contract runs the suite with this number of steps of Twin: all of it, or the most useful part in little time.
func contract(t *testing.T, steps int, whole bool, open func(testing.TB) storetest.CompleteStore) {
	caches := map[string]*denycache.Cache{}
	suite := storetest.Suite{TwinSteps: steps, Open: func(t testing.TB, n int) []penstock.Store {
		store := &invalidatingStore{CompleteStore: open(t)}
		store.cache = newCache(t, store)
		caches[path.Base(t.Name())] = store.cache
		return slices.Repeat([]penstock.Store{store.cache}, n)
	}}
	t.Run("Scenarios", suite.Scenarios)
	t.Run("Edges", suite.Edges)
	t.Run("Linearizable", suite.Linearizable)
	t.Run("Twin", suite.Twin)
	heard := []string{"Linearizable", "Twin"}
	if whole {
		t.Run("Invariants", suite.Invariants)
		t.Run("Guards", suite.Guards)
		t.Run("Promise", suite.Promise)
		t.Run("Exactly", fleet(open).Exactly)
		heard = append(heard, "Promise")
	}
	for _, part := range heard {
		if caches[part] == nil { // the race detector was spared it
			continue
		}
		hits := caches[part].Stats().Hits
		t.Logf("%s: %d answers were the cache's", part, hits)
		if hits == 0 {
			t.Errorf("%s: no answer was the cache's, so this says nothing about it", part)
		}
	}
}

// fleet is a set of nodes that learn nothing from each other: that must not change what passes.
func fleet(open func(testing.TB) storetest.CompleteStore) storetest.Suite {
	return storetest.Suite{Open: func(t testing.TB, n int) (nodes []penstock.Store) {
		store := open(t)
		for range n {
			nodes = append(nodes, newCache(t, store))
		}
		return nodes
	}}
}

func newRedisstore(t testing.TB, server *redistest.Server) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newMemstore(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newCache(t testing.TB, s penstock.Store) *denycache.Cache {
	t.Helper()
	c, err := denycache.New(storetest.Full(s), denycache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

package memstore

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A store that was full, and is full of expired state, keeps the contract. Twin is left out: its traces are
// years apart in both directions, and what is expired in one is alive in another.
func TestContractAfterAFlood(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills a store for every part of the contract")
	}
	suite := storetest.Suite{Open: func(t testing.TB, nodes int) []storage.Store {
		s := open(t, Options{MaxBytes: 8 << 20})
		short := limit(t, algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Second, Ordinal: 9})
		log := limit(t, algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Second, Ordinal: 9})
		ticket := single(0, short, 1)
		ticket.Now = 1_000_000
		for n := uint64(0); s.memory.mostShared() < 20; n++ {
			ticket.Groups[0].Subject = subject(1<<50 + n)
			ticket.Groups[0].Charges[0].Meter = []*algorithm.Meter{short, short, short, log}[n%4]
			take(t, s, ticket)
		}
		for i := range s.shards { // as if the real clock had written it, long ago
			s.shards[i].coolDown()
			for j := range s.shards[i].size() {
				s.shards[i].at(j).head &^= given
			}
		}
		stores := make([]storage.Store, nodes)
		for i := range stores {
			stores[i] = s
		}
		return stores
	}}
	t.Run("Scenarios", suite.Scenarios)
	t.Run("Edges", suite.Edges)
	t.Run("Invariants", suite.Invariants)
	t.Run("Guards", suite.Guards)
	t.Run("Promise", suite.Promise)
	t.Run("Exactly", suite.Exactly)
	t.Run("Linearizable", suite.Linearizable)
}

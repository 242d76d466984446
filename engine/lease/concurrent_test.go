package lease

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// onRedis opens nodes of a fleet, each with a client of its own.
func onRedis(t *testing.T, n int) (nodes []*Store) {
	t.Helper()
	server := redistest.Start(t)
	for range n {
		inner, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { inner.Close() })
		nodes = append(nodes, around(t, inner))
	}
	return nodes
}

// rush sends concurrent requests on every node, each client times of them.
func rush(t *testing.T, nodes []*Store, callers, times int, ticket storage.Ticket, admit func(*storage.Outcome)) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			var out storage.Outcome
			ticket := ticket
			for range times {
				if err := nodes[i%len(nodes)].Take(t.Context(), &ticket, &out); err != nil {
					t.Error(err)
					return
				}
				if out.Allowed {
					admit(&out)
				}
			}
		})
	}
	all.Wait()
}

// Concurrent clients on three nodes, in virtual time that moves between their rounds: no window exceeds the
// limit, and all quota is accounted for.
func TestConcurrentInVirtualTime(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		inner := memory(t, little)
		rounds(t, []*Store{around(t, inner), around(t, inner), around(t, inner)})
	})
	t.Run("redis", func(t *testing.T) { rounds(t, onRedis(t, 3)) })
}

func rounds(t *testing.T, nodes []*Store) {
	const limit, callers, times = 5000, 9, 5 // 45 requests in each round
	g := leased(stranger(), 1, perSecond(limit))
	var total, charged int64
	for window := range penstock.Instant(2) {
		var passed atomic.Int64
		for round := range penstock.Instant(130) {
			ticket := storage.Ticket{Now: monday + window*second + round*4*ms, Groups: []storage.Group{g}}
			rush(t, nodes, callers, times, ticket, func(*storage.Outcome) { passed.Add(1) })
		}
		if passed.Load() > limit {
			t.Errorf("%d passed in window %d, of %d", passed.Load(), window, limit)
		}
		total += passed.Load()
		peek := leased(g.Subject, 0, g.Charges[0].Meter)
		charged += take(t, nodes[0], monday+window*second+520*ms, peek).Decisions[0].Used

		var lost, byPermits int64
		for _, node := range nodes {
			stats := node.Stats()
			lost += stats.Expired + node.held()
			byPermits += stats.Leased
			if stats.Permits != stats.Leased+stats.Expired+node.held() {
				t.Errorf("permits do not add up: %+v, %d held", stats, node.held())
			}
		}
		if byPermits == 0 {
			t.Error("nothing was decided by permits")
		}
		if total != charged-lost {
			t.Errorf("%d passed of %d that were charged, and %d were lost", total, charged, lost)
		}
	}
}

// The same by Redis's own clock: windows are distinguished by the outcome's instant.
func TestConcurrentInRealTime(t *testing.T) {
	const limit = 2000
	nodes := onRedis(t, 3)
	var mu sync.Mutex
	passed := map[penstock.Instant]int{}
	rush(t, nodes, 12, 1500, storage.Ticket{Groups: []storage.Group{leased(stranger(), 1, perSecond(limit))}}, func(out *storage.Outcome) {
		mu.Lock()
		passed[out.Now/second]++
		mu.Unlock()
	})
	for window, n := range passed {
		if n > limit {
			t.Errorf("%d passed in window %d, of %d", n, window, limit)
		}
	}
	var stats Stats
	for _, node := range nodes {
		s := node.Stats()
		stats.Leased += s.Leased
		stats.StoreCalls += s.StoreCalls
	}
	t.Logf("%v passed; %d by permits, %d store calls", passed, stats.Leased, stats.StoreCalls)
}

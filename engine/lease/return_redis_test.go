package lease

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Clients on every node continue while the nodes return one after the other: in the end the store has counted
// what passed and what expired.
func TestReturnUnderLoad(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		inner := memory(t, little)
		returnUnderLoad(t, []*Store{around(t, inner), around(t, inner), around(t, inner)})
	})
	t.Run("redis", func(t *testing.T) { returnUnderLoad(t, onRedis(t, 3)) })
}

func returnUnderLoad(t *testing.T, nodes []*Store) {
	const limit = 1_000_000 // never reached
	// A second rule denies some requests, so that quota is put back while other requests take it.
	g, narrow := leased(stranger(), 1, perSecond(limit)), leased(stranger(), 1, perSecond(1000))
	narrow.Leased = false
	var passed atomic.Int64
	var returning sync.WaitGroup
	for i, node := range nodes {
		enough := 1000 * int64(i+1)
		returning.Go(func() {
			for passed.Load() < enough {
				time.Sleep(100 * time.Microsecond)
			}
			if err := node.Return(t.Context(), monday); err != nil {
				t.Error(err)
			}
		})
	}
	admit := func(*storage.Outcome) { passed.Add(1) }
	rush(t, nodes, 6, 300, storage.Ticket{Now: monday, Groups: []storage.Group{g}}, admit)
	var both sync.WaitGroup
	both.Go(func() { rush(t, nodes, 9, 400, storage.Ticket{Now: monday, Groups: []storage.Group{g}}, admit) })
	both.Go(func() {
		rush(t, nodes, 6, 400, storage.Ticket{Now: monday, Groups: []storage.Group{g, narrow}}, admit)
	})
	both.Wait()
	returning.Wait()

	var all Stats
	for i, node := range nodes {
		stats := node.Stats()
		if node.held() != 0 || stats.Permits != stats.Leased+stats.Expired+stats.Returned {
			t.Errorf("node %d: %d are held; %+v", i, node.held(), stats)
		}
		all.Leased, all.Expired, all.Returned = all.Leased+stats.Leased, all.Expired+stats.Expired, all.Returned+stats.Returned
	}
	if got, want := used(t, nodes[0], monday, g), passed.Load()+all.Expired; got != want {
		t.Errorf("the store has counted %d, want %d: %d passed; %+v", got, want, passed.Load(), all)
	}
	if all.Leased == 0 {
		t.Errorf("nothing was proved: %+v", all)
	}
}

// Leases are sent with groups whose state is in other slots, and are returned to their own.
func TestReturnOnACluster(t *testing.T) {
	inner, err := redisstore.Open(redisstore.Options{
		Addresses: redistest.StartCluster(t, 3).Addrs, Mode: redisstore.Cluster, Timeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	s := around(t, inner)
	for range 5 {
		g, beside := leased(stranger(), 1, perSecond(10_000)), leased(stranger(), 1, perSecond(10_000))
		beside.Leased = false
		passed := int64(0)
		for range 100 {
			if take(t, s, monday, g, beside).Allowed {
				passed++
			}
		}
		defer func() {
			if n := used(t, inner, monday, g); n != passed {
				t.Errorf("%d are used after %d calls", n, passed)
			}
		}()
	}
	held := s.held()
	if err := s.Return(t.Context(), monday); err != nil || held == 0 || s.Stats().Returned != held {
		t.Errorf("%v; %d were held; %+v", err, held, s.Stats())
	}
}

package redisstore_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A process whose goroutines wait longer for CPU than Redis may take still gets its answers: in shared
// runs, in single ones and over new connections, and for settlements too.
func TestStarvedProcess(t *testing.T) {
	for mode, addresses := range map[redisstore.Mode]func() []string{
		redisstore.Single: func() []string {
			server := redistest.Start(t)
			server.Prefer()
			return []string{server.Addr}
		},
		redisstore.Cluster: func() []string {
			cluster := redistest.StartCluster(t, 2)
			for _, server := range cluster.Nodes {
				server.Prefer()
			}
			return cluster.Addrs
		},
	} {
		t.Run(string(mode), func(t *testing.T) {
			const timeout = 100 * time.Millisecond
			store := dialHasty(t, redisstore.Options{Addresses: addresses(), Mode: mode, Timeout: timeout, ConnectTimeout: time.Minute})
			m, who := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: 30 * 24 * time.Hour}.MustCompile(), stranger()
			recovers(t, store, m)
			starveGoroutines(t, 2*timeout)
			var passed atomic.Int64
			const burst = 50
			atOnce(burst, func(int) {
				var out storage.Outcome
				if err := store.Take(t.Context(), one(0, who, charge(m, 1)), &out); err != nil {
					t.Error(err)
				} else if out.Allowed {
					passed.Add(1)
				}
			})
			expect(t, "requests that passed", int(passed.Load()), 10)
			for range 2 { // each alone
				ticket := one(0, stranger(), charge(m, 1))
				ticket.Groups[0].Reserve = time.Hour
				take(t, store, ticket)
				settle(t, store, settlement(ticket, storage.Settle))
			}
		})
	}
}

// starveGoroutines makes every goroutine wait about this long for its turn, until the test ends.
func starveGoroutines(t *testing.T, wait time.Duration) {
	const slice = 10 * time.Millisecond // before the runtime preempts a goroutine
	procs := runtime.GOMAXPROCS(1)
	var stop atomic.Bool
	var all sync.WaitGroup
	for range wait / slice {
		all.Go(func() {
			for !stop.Load() {
			}
		})
	}
	t.Cleanup(func() {
		stop.Store(true)
		all.Wait()
		runtime.GOMAXPROCS(procs)
	})
}

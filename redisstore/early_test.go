package redisstore_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A request that times out has had its full time: neither the deadline of a request on the same connection
// nor that of one that makes a connection for others ends it.
func TestNoRequestFailsBeforeItsTime(t *testing.T) {
	t.Parallel()
	const timeout = 300 * time.Millisecond
	for _, test := range []struct {
		mode redisstore.Mode
		addr func() (addresses []string, pause, resume func() error)
	}{
		{redisstore.Single, func() ([]string, func() error, func() error) {
			s := redistest.Start(t)
			return []string{s.Addr}, s.Pause, s.Resume
		}},
		{redisstore.Cluster, func() ([]string, func() error, func() error) {
			c := redistest.StartCluster(t, 1)
			return c.Addrs, c.Nodes[0].Pause, c.Nodes[0].Resume
		}},
	} {
		t.Run(string(test.mode), func(t *testing.T) {
			addresses, pause, resume := test.addr()
			// A connection that owes replies for ConnectTimeout is closed, and the requests on it fail however young
			// they are. It is longer than a busy machine needs to start all requests of a round.
			store := dialHasty(t, redisstore.Options{Addresses: addresses, Mode: test.mode, Timeout: timeout, ConnectTimeout: time.Minute})
			m := spacious()
			for range 3 {
				recovers(t, store, m)
				if err := pause(); err != nil {
					t.Fatal(err)
				}
				var all sync.WaitGroup
				for range 100 {
					wait := rand.N(2 * timeout)
					all.Go(func() {
						time.Sleep(wait)
						ticket, began := one(0, stranger(), charge(m, 1)), time.Now()
						err := store.Take(t.Context(), ticket, new(storage.Outcome))
						if took := time.Since(began); err == nil || took < timeout {
							t.Errorf("after %v of %v: %v", took, timeout, err)
						}
					})
				}
				all.Wait()
				if err := resume(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

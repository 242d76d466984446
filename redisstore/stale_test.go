package redisstore_test

import (
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A charge whose own slot has gone stale is written beside the slots that its ticket wrote before it. When
// one charge removes stale slots, the next must not assume that it is alone in the value.
func TestStaleSlotBesideALiveOne(t *testing.T) {
	store := dial(t, redisstore.Options{Addresses: []string{redistest.Start(t).Addr}})
	long := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1000, Window: 300 * 24 * time.Hour}.MustCompile()
	short := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Window: time.Millisecond}.MustCompile()
	who := stranger()
	for calls := int64(1); calls <= 8; calls++ {
		var out storage.Outcome
		ticket := storage.Ticket{Groups: []storage.Group{{Subject: who, Charges: []algorithm.Charge{{Meter: long, Cost: 1}, {Meter: short, Cost: 1}}}}}
		if err := store.Take(t.Context(), &ticket, &out); err != nil {
			t.Fatal(err)
		}
		if out.Decisions[0].Used != calls {
			t.Fatalf("call %d: %d used of the long window", calls, out.Decisions[0].Used)
		}
		// Wait until the short limit's state has expired, by the server's clock.
		stale := out.Now + algorithm.Instant(algorithm.CodeLife(algorithm.LifeCode(short.Life))) + 1000
		await(t, "the short state to go stale", func() bool {
			var peek storage.Outcome
			err := store.Take(t.Context(), &storage.Ticket{Groups: []storage.Group{{Subject: stranger(), Charges: []algorithm.Charge{{Meter: long}}}}}, &peek)
			return err == nil && peek.Now > stale
		})
	}
}

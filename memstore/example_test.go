package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
)

// Two limits of one rule, taken together: three a second, and five a minute.
func Example() {
	perSecond := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 3, Window: time.Second}.MustCompile()
	perMinute := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: 5, Window: time.Minute}.MustCompile()

	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	alice := penstock.NewHasher("secret").Subject("shop", "search", penstock.Attribute{Name: "user", Value: "alice"})
	ticket := penstock.Ticket{
		Now: 1_700_000_000_000_000, // leave it 0 for the store's clock
		Groups: []penstock.Group{{Subject: alice, Charges: []penstock.Charge{
			{Meter: perSecond, Cost: 1},
			{Meter: perMinute, Cost: 1},
		}}},
	}
	var out penstock.Outcome // reused: deciding allocates nothing
	for range 4 {
		if err := store.Take(context.Background(), &ticket, &out); err != nil {
			panic(err)
		}
		second, minute := out.Decisions[0], out.Decisions[1]
		fmt.Println(out.Allowed, second.Remaining, minute.Remaining, second.RetryAfter)
	}
	// Output:
	// true 2 4 0s
	// true 1 3 0s
	// true 0 2 0s
	// false 0 2 333.334ms
}

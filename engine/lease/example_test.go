package lease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

func Example() {
	shared, err := memstore.New(memstore.Options{}) // with several nodes, Redis
	if err != nil {
		panic(err)
	}
	defer shared.Close()
	store, err := lease.New(shared, lease.Options{})
	if err != nil {
		panic(err)
	}

	limit := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 1_000_000, Window: time.Minute}.MustCompile()
	everybody := storage.Group{
		Subject: storage.NewHasher("a secret").Subject("api", "everybody"),
		Charges: []algorithm.Charge{{Meter: limit, Cost: 1}},
		Leased:  true,
	}
	start := penstock.InstantOf(time.Date(2027, 1, 4, 9, 0, 0, 0, time.UTC))
	var out storage.Outcome
	for i := range 100_000 { // within a second
		ticket := storage.Ticket{Now: start + penstock.Instant(10*i), Groups: []storage.Group{everybody}}
		if err := store.Take(context.Background(), &ticket, &out); err != nil || !out.Allowed {
			panic(fmt.Sprint(out, err))
		}
	}
	stats := store.Stats()
	fmt.Println("decided:", stats.Leased+stats.Exact)
	fmt.Println("fewer than one store call for a thousand:", stats.StoreCalls < 100)
	// Output:
	// decided: 100000
	// fewer than one store call for a thousand: true
}

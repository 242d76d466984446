package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A monthly quota in Berlin's calendar and a rate, decided together in one round trip.
func Example() {
	server, err := redistest.Launch(context.Background()) // yours is already running
	if err != nil {
		panic(err)
	}
	defer server.Close()

	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	rate := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 2, Window: time.Hour}.MustCompile()
	quota := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 5000, Period: algorithm.Month, Location: berlin}.MustCompile()

	store, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	key := storage.NewHasher("secret").Subject("api", "plan", storage.Attribute{Name: "api_key", Value: "k-123"})
	ticket := storage.Ticket{Groups: []storage.Group{{Subject: key, Charges: []algorithm.Charge{
		{Meter: rate, Cost: 1},
		{Meter: quota, Cost: 1},
	}}}}
	var out storage.Outcome
	for range 3 {
		if err := store.Take(context.Background(), &ticket, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.Allowed, out.Decisions[0].Remaining, out.Decisions[1].Remaining)
	}
	// Output:
	// true 1 4999
	// true 0 4998
	// false 0 4998
}

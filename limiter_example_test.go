package penstock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// Two limits that are taken together or not at all, with counters in memory.
func ExampleNew() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerHour(3), penstock.PerDay(100))
	if err != nil {
		log.Fatal(err)
	}

	for range 4 {
		d, err := limiter.Allow(context.Background(), "alice")
		if err != nil {
			log.Print(err) // the store is down; d denies
		}
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter > 0)
	}
	// Output:
	// true 2 false
	// true 1 false
	// true 0 false
	// false 0 true
}

// Counters in Redis are shared by all nodes whose limiter has the same name.
func ExampleNew_redis() {
	server, err := redistest.Launch(context.Background()) // yours is already running
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	store, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerDay(1).SlidingLog(), penstock.WithName("password-reset"), penstock.WithSecret("the same on all nodes"))
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		d, err := limiter.Allow(context.Background(), "alice@example.com")
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// The token count of a language model is known only with the answer: reserve an estimate, settle the true
// cost.
func ExampleLimiter_Reserve() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.PerDay(1000).TokenBucket(1000))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	d, reservation, err := limiter.Reserve(ctx, "alice", 800)
	fmt.Println("reserved:", d.Allowed, d.Remaining, err)
	d, err = limiter.Settle(ctx, reservation, 250)
	fmt.Println("settled:", d.Allowed, d.Remaining, err)
	// Output:
	// reserved: true 200 <nil>
	// settled: true 750 <nil>
}

// At most two jobs of one customer at the same time, on all nodes together if the store is shared.
func ExampleConcurrent() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := penstock.New(store, penstock.Concurrent(2))
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	start := func() string {
		d, permit, err := limiter.Reserve(ctx, "customer-7", 1)
		fmt.Println(d.Allowed, err)
		return permit
	}
	first := start()
	start()
	start()
	fmt.Println("done:", limiter.Release(ctx, first)) // a job of more than a minute calls Renew meanwhile
	start()
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// done: <nil>
	// true <nil>
}

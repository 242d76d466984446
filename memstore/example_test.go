package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// Two limits of one rule, taken together: three a second, and five a minute.
func Example() {
	perSecond := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 3, Window: time.Second}.MustCompile()
	perMinute := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 5, Window: time.Minute}.MustCompile()

	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	alice := storage.NewHasher("secret").Subject("shop", "search", storage.Attribute{Name: "user", Value: "alice"})
	ticket := storage.Ticket{
		Now: 1_700_000_000_000_000, // leave it 0 for the store's clock
		Groups: []storage.Group{{Subject: alice, Charges: []algorithm.Charge{
			{Meter: perSecond, Cost: 1},
			{Meter: perMinute, Cost: 1},
		}}},
	}
	var out storage.Outcome // reused: deciding allocates nothing
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

const noon = algorithm.Instant(1_700_000_000_000_000) // leave Now 0 for the store's clock

var alice = storage.NewHasher("secret").Subject("shop", "api", storage.Attribute{Name: "user", Value: "alice"})

// A language model's token count is known only when the answer is: reserve an estimate, then settle the
// actual cost.
func ExampleStore_Settle() {
	ctx := context.Background()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	tokens := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1000, Window: time.Minute}.MustCompile()

	var out storage.Outcome
	err = store.Take(ctx, &storage.Ticket{
		Now:   noon,
		Nonce: 42, // a random number
		Groups: []storage.Group{{
			Subject: alice,
			Charges: []algorithm.Charge{{Meter: tokens, Cost: 800}},
			Reserve: time.Minute,
		}},
	}, &out)
	fmt.Println("reserved:", out.Allowed, out.Decisions[0].Remaining, err)

	settlement := storage.Settlement{
		Now: noon, Subject: alice, Nonce: out.Groups[0].Nonce,
		Verb:    storage.Settle,
		Charges: []algorithm.Charge{{Meter: tokens, Cost: 250}},
	}
	var settled storage.SettleOutcome
	err = store.Settle(ctx, &settlement, &settled)
	fmt.Println("settled:", settled.Allowed, settled.Decisions[0].Remaining, err)
	err = store.Settle(ctx, &settlement, &settled) // the reply was lost: send it again
	fmt.Println("again:", settled.Again, settled.Decisions[0].Remaining, err)
	settlement.Charges[0].Cost = 0
	fmt.Println(store.Settle(ctx, &settlement, &settled))
	// Output:
	// reserved: true 200 <nil>
	// settled: true 750 <nil>
	// again: true 750 <nil>
	// settle 42 in memory: reservation was already settled or released with another cost
}

// A double click is charged once; invented ids get no more than the budget.
func ExampleStore_Take_duplicates() {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	hasher := storage.NewHasher("secret")
	perMinute := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Window: time.Minute}.MustCompile()
	dedup, err := algorithm.DedupTerms{TTL: 10 * time.Second, MaxReplays: 1, Budget: 1, Beside: algorithm.Limit{Algorithm: algorithm.FixedWindow, Window: time.Minute}}.Compile()
	if err != nil {
		panic(err)
	}
	var out storage.Outcome
	for _, id := range []string{"order-1", "order-1", "order-2", "order-2"} {
		err := store.Take(context.Background(), &storage.Ticket{Now: noon, Groups: []storage.Group{{
			Subject: alice,
			Charges: []algorithm.Charge{{Meter: perMinute, Cost: 1}},
			Dedup:   dedup, Call: hasher.Call(id),
		}}}, &out)
		fmt.Println(id, "allowed:", out.Allowed, "repeat:", out.Groups[0].Replay, "used:", out.Decisions[0].Used, err)
	}
	// Output:
	// order-1 allowed: true repeat: false used: 1 <nil>
	// order-1 allowed: true repeat: true used: 1 <nil>
	// order-2 allowed: true repeat: false used: 2 <nil>
	// order-2 allowed: true repeat: false used: 3 <nil>
}

// Two strikes within a minute lead to a ban: first for a minute, then for an hour.
func ExampleStore_Take_bans() {
	ctx := context.Background()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	perSecond := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Second}.MustCompile()
	penalty, err := algorithm.PenaltyTerms{
		After: 2, Within: time.Minute, Bans: []time.Duration{time.Minute, time.Hour}, ForgiveAfter: 24 * time.Hour,
	}.Compile()
	if err != nil {
		panic(err)
	}
	ticket := storage.Ticket{Now: noon, Groups: []storage.Group{{
		Subject: alice, Charges: []algorithm.Charge{{Meter: perSecond, Cost: 1}}, Penalty: penalty,
	}}}
	var out storage.Outcome
	for range 4 {
		if err := store.Take(ctx, &ticket, &out); err != nil {
			panic(err)
		}
		fmt.Println("allowed:", out.Allowed, "strikes:", out.Groups[0].Strikes, "retry after:", out.Decisions[0].RetryAfter)
	}
	until, err := store.Ban(ctx, &storage.Ban{Now: noon, Subject: alice, Penalty: penalty}) // lifted manually
	fmt.Println("banned until:", until, err)
	ticket.Now += 1_000_000
	err = store.Take(ctx, &ticket, &out)
	fmt.Println("allowed:", out.Allowed, "bans so far:", out.Groups[0].Bans, err)
	// Output:
	// allowed: true strikes: 0 retry after: 0s
	// allowed: false strikes: 1 retry after: 1s
	// allowed: false strikes: 0 retry after: 1m0s
	// allowed: false strikes: 0 retry after: 1m0s
	// banned until: 0 <nil>
	// allowed: true bans so far: 1 <nil>
}

// At most two at once. A client that is done releases its permit; one that needs longer renews it.
func ExampleStore_Settle_leases() {
	ctx := context.Background()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	atOnce := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 2, Window: 30 * time.Second}.MustCompile()
	acquire := func(nonce uint64) bool {
		var out storage.Outcome
		if err := store.Take(ctx, &storage.Ticket{Now: noon, Nonce: nonce, Groups: []storage.Group{{
			Subject: alice, Charges: []algorithm.Charge{{Meter: atOnce, Cost: 1}},
		}}}, &out); err != nil {
			panic(err)
		}
		return out.Allowed
	}
	fmt.Println(acquire(1), acquire(2), acquire(3))
	settlement := storage.Settlement{
		Now: noon, Subject: alice, Nonce: 1, Charges: []algorithm.Charge{{Meter: atOnce}},
		Verb: storage.Renew, TTL: 30 * time.Second,
	}
	var settled storage.SettleOutcome
	fmt.Println(store.Settle(ctx, &settlement, &settled), settled.Until.Sub(noon))
	settlement.Verb = storage.Release
	fmt.Println(store.Settle(ctx, &settlement, &settled), settled.Decisions[0].Used)
	fmt.Println(acquire(3))
	// Output:
	// true true false
	// <nil> 30s
	// <nil> 1
	// true
}

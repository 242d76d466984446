package penstock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
)

func ExampleLimit_Compile() {
	meter, err := penstock.Limit{
		Algorithm: penstock.TokenBucket,
		Count:     10,
		Window:    time.Second,
		Burst:     20,
	}.Compile()
	fmt.Println(meter, err)
	// Output: token_bucket 10/1s burst 20 <nil>
}

// Every mistake is reported at once, each with what would do.
func ExampleLimit_Validate() {
	err := penstock.Limit{
		Algorithm: penstock.LeakyBucket,
		Count:     0,
		Window:    time.Minute + time.Microsecond,
		Burst:     20,
	}.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, penstock.ErrInvalid))
	// Output:
	// invalid limit "leaky_bucket 0/1m0.000001s burst 20 queue 0": count 0: must be from 1 to 1000000000000 for leaky_bucket
	// window 1m0.000001s: must be a multiple of 1ms at this length, for example 1m0s
	// burst 20: has a meaning only for token_bucket, not leaky_bucket
	// true
}

// A subject stands for a caller without naming it. All nodes that share a store share the secret.
func ExampleHasher_Subject() {
	hasher := penstock.NewHasher("a secret of this deployment")
	ann := hasher.Subject("shop", "login", penstock.Attribute{Name: "user", Value: "ann"})
	bob := hasher.Subject("shop", "login", penstock.Attribute{Name: "user", Value: "bob"})
	fmt.Println(len(ann.String()), ann == bob)
	// Output: 22 false
}

// A ticket asks for several limits together: either all are charged, or none is.
func ExampleTicket() {
	minute := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 100, Window: time.Minute}.MustCompile()
	day := penstock.Limit{Algorithm: penstock.FixedWindow, Count: 10_000, Period: penstock.Day}.MustCompile()
	hasher := penstock.NewHasher("a secret of this deployment")

	ticket := penstock.Ticket{Groups: []penstock.Group{{
		Subject: hasher.Subject("shop", "search", penstock.Attribute{Name: "api_key", Value: "k-17"}),
		Charges: []penstock.Charge{{Meter: minute, Cost: 1}, {Meter: day, Cost: 1}},
	}}}
	fmt.Println(ticket.Validate()) // store.Take(ctx, &ticket, &outcome) comes next
	// Output: <nil>
}

// A store brings a state up to date, charges it, and tells the client the numbers. This is a
// bucket of two that gets one token back every ten seconds.
func ExampleMeter_Weigh() {
	meter := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 6, Window: time.Minute, Burst: 2}.MustCompile()
	noon := penstock.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

	var state penstock.State // never seen
	for _, now := range []penstock.Instant{noon, noon, noon, noon.Add(10 * time.Second)} {
		next, passes, _ := meter.Weigh(state, now, 1, 0)
		if passes {
			next = meter.Charge(next, 1)
			state = next
		}
		d := meter.Report(now, penstock.Result{State: next, Cost: 1, Passes: passes, Taken: passes})
		fmt.Println(d.Allowed, "remaining", d.Remaining, "retry", d.RetryAfter, "reset", d.ResetAfter)
	}
	// Output:
	// true remaining 1 retry 0s reset 10s
	// true remaining 0 retry 0s reset 20s
	// false remaining 0 retry 10s reset 20s
	// true remaining 0 retry 0s reset 20s
}

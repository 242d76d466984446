package algorithm_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

func ExampleLimit_Compile() {
	meter, err := algorithm.Limit{
		Algorithm: algorithm.TokenBucket,
		Count:     10,
		Window:    time.Second,
		Burst:     20,
	}.Compile()
	fmt.Println(meter, err)
	// Output: token_bucket 10/1s burst 20 <nil>
}

// All errors are reported at once, each with what is allowed.
func ExampleLimit_Validate() {
	err := algorithm.Limit{
		Algorithm: algorithm.LeakyBucket,
		Count:     0,
		Window:    time.Minute + time.Microsecond,
		Burst:     20,
	}.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, algorithm.ErrInvalid))
	// Output:
	// invalid limit "leaky_bucket 0/1m0.000001s burst 20 queue 0": count 0: must be from 1 to 1000000000000 for leaky_bucket
	// window 1m0.000001s: must be a multiple of 1ms at this length, for example 1m
	// burst 20: is only for token_bucket, not leaky_bucket
	// true
}

// A store brings a state up to date, charges it, and reports the numbers to the client. This is a bucket of
// two that gets one token back every ten seconds.
func ExampleMeter_Weigh() {
	meter := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 6, Window: time.Minute, Burst: 2}.MustCompile()
	noon := algorithm.InstantOf(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))

	var state algorithm.State // never seen
	for _, now := range []algorithm.Instant{noon, noon, noon, noon.Add(10 * time.Second)} {
		next, passes, _ := meter.Weigh(state, now, 1, 0)
		if passes {
			next = meter.Charge(next, 1)
			state = next
		}
		d := meter.Report(now, algorithm.Result{State: next, Cost: 1, Passes: passes, Taken: passes})
		fmt.Println(d.Allowed, "remaining", d.Remaining, "retry", d.RetryAfter, "reset", d.ResetAfter)
	}
	// Output:
	// true remaining 1 retry 0s reset 10s
	// true remaining 0 retry 0s reset 20s
	// false remaining 0 retry 10s reset 20s
	// true remaining 0 retry 0s reset 20s
}

package redisstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// edgeTraces returns short scenarios at edges that random traces seldom reach, answered by the model.
func edgeTraces() ([]trace, error) {
	r := &recorder{Model: storetest.NewModel()}
	var traces []trace
	for _, story := range []func(take func(*storage.Ticket) storage.Outcome){leakyPatience, leaseExpiry, lowerConcurrency, peeksBeforeNewcomer} {
		r.whole = nil
		var failed error
		story(func(t *storage.Ticket) (out storage.Outcome) {
			if err := r.Take(context.Background(), t, &out); err != nil && failed == nil {
				failed = fmt.Errorf("the story is not sound: %w", err)
			}
			return out
		})
		if failed != nil {
			return nil, failed
		}
		traces = append(traces, r.whole.split()...)
	}
	for _, story := range guardStories {
		r.whole = nil
		story(scenarioRecorder{r})
		traces = append(traces, r.whole.split()...)
	}
	return traces, nil
}

// leakyPatience: clients that can wait exactly as long as they must, a microsecond less and one more, at
// every length of a tick.
func leakyPatience(take func(*storage.Ticket) storage.Outcome) {
	for _, window := range []time.Duration{time.Second, 7 * time.Second, 20 * time.Second, 11 * time.Hour} {
		for _, perWindow := range []int64{1, 2, 3, 7, 999} {
			m := algorithm.Limit{Algorithm: algorithm.LeakyBucket, Count: perWindow, Window: window, Queue: 20}.MustCompile()
			for off := range time.Duration(3) {
				who, now := stranger(), monday
				for i := range 12 {
					now += algorithm.Instant(i * 137)
					// A client that cannot wait at all is told how long it would have to wait.
					probe := one(now, who, charge(m, 1))
					probe.MaxDelay = 0
					denied := take(probe)
					if denied.Allowed {
						continue
					}
					probe.MaxDelay = max(0, denied.Decisions[0].RetryAfter+(off-1)*time.Microsecond)
					take(probe)
					take(one(now, who, charge(m, 1)))
				}
			}
		}
	}
}

// leaseExpiry: a holder asks again at the exact instant its permit ends, just before and just after.
func leaseExpiry(take func(*storage.Ticket) storage.Outcome) {
	for off := range algorithm.Instant(3) {
		m := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Second}.MustCompile()
		who := stranger()
		first := one(monday, who, charge(m, 1))
		take(first)
		take(one(monday+10, who, charge(m, 1)))
		again := *first
		again.Now = monday + seconds(1) + off - 1
		take(&again)
		take(one(again.Now, who, charge(m, 0)))
	}
}

// lowerConcurrency: more permits are live than a lowered limit grants; a peek and a request wait for
// different ones to end.
func lowerConcurrency(take func(*storage.Ticket) storage.Outcome) {
	limit := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 6, Window: time.Second}
	who := stranger()
	for i := range algorithm.Instant(6) {
		take(one(monday+100*i, who, charge(limit.MustCompile(), 1)))
	}
	for limit.Count = 6; limit.Count > 0; limit.Count-- {
		for cost := range int64(2) {
			take(one(monday+1000, who, charge(limit.MustCompile(), cost)))
		}
	}
}

// peeksBeforeNewcomer: a ticket peeks at limits with and without state and charges one that is new to the
// subject, which must not take the place of another.
func peeksBeforeNewcomer(take func(*storage.Ticket) storage.Outcome) {
	var fixed []*algorithm.Meter
	for _, m := range eachKind(time.Hour) {
		if m.Kind.Fixed() {
			fixed = append(fixed, m)
		}
	}
	for i := range fixed {
		pick := func(k int) *algorithm.Meter { return fixed[(i+k)%len(fixed)] }
		for peeks := range 4 {
			who := stranger()
			take(one(monday, who, charge(pick(0), 1)))
			ticket := one(monday, who)
			for k := range peeks {
				ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(pick(k), 0))
			}
			ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(pick(4), 1))
			take(ticket)
			take(one(monday, who, charge(pick(0), 0), charge(pick(4), 0)))
		}
	}
}

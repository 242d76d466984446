package memstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// singleLimits are limits of every kind that is decided without a workspace, small enough to be used up.
func singleLimits() []algorithm.Limit {
	const window = 10 * time.Second
	return []algorithm.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: window},
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: window, CountDenied: true, Ordinal: 1},
		{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Hour},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 5, Window: window},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 5, Window: window, CountDenied: true, Ordinal: 1},
		{Algorithm: algorithm.TokenBucket, Count: 4, Window: window, Burst: 6},
		{Algorithm: algorithm.TokenBucket, Count: 4, Window: 24 * time.Hour, Overdraft: 5},
		{Algorithm: algorithm.TokenBucket, Count: 2, Window: window, Refill: algorithm.Interval},
		{Algorithm: algorithm.LeakyBucket, Count: 3, Window: window, Queue: 2},
	}
}

// The three ways to decide a single charge return the same, leave the same state and fail with the same error:
// without a ticket, with a ticket, and with a ticket through a workspace, as tickets with more are decided.
func TestSingleChargesAreDecidedAlike(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	for i, l := range singleLimits() {
		t.Run(l.String(), func(t *testing.T) {
			m := limit(t, l)
			random := rand.New(rand.NewPCG(uint64(i), 1))
			without, with, through := open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes}), open(t, Options{MaxBytes: MinBytes})
			with.seed, through.seed = without.seed, without.seed // the same keys share counters
			rule := storage.NewHasher("secret").Rule("domain", "rule", "key")
			alone := without.Single(without, rule, m)
			now := algorithm.Instant(1_700_000_000_000_000)
			for call := range 5000 {
				now += algorithm.Instant(random.Int64N(1000))
				if call < 2500 {
					now += algorithm.Instant(random.Int64N(4_000_000) - 100_000) // clocks step back too
				}
				if call < 2500 && random.IntN(200) == 0 {
					now += algorithm.Instant(random.Int64N(1e12) - 5e11)
				}
				ticket := single(uint64(random.Int64N(20)), m, [...]int64{0, 1, 1, 1, 2, 3, 9, -1, algorithm.MaxCount + 1}[random.IntN(9)])
				if call >= 2500 || random.IntN(2) == 0 { // in the end more than fit into the store: some share a counter
					ticket = single(uint64(call), m, 1)
				}
				ticket.Now, ticket.MaxDelay = now, [...]time.Duration{0, time.Second, algorithm.AnyDelay, -1}[random.IntN(4)]
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(50) == 0 {
					cancel()
				}
				key := fmt.Sprint("key ", ticket.Nonce)
				ticket.Groups[0].Subject = rule.Subject(key)
				st, r, err := alone.Take(ctx, ticket.Now, key, ticket.Groups[0].Charges[0].Cost, ticket.MaxDelay)
				var out, ordinary storage.Outcome
				outErr := with.Take(ctx, ticket, &out)
				if fmt.Sprint(err) != fmt.Sprint(outErr) {
					t.Fatalf("call %d: without a ticket %v, with one %v", call, err, outErr)
				}
				if err != nil {
					cancel()
					continue
				}
				if err := through.takeMany(ticket, &ordinary); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(out, ordinary) {
					t.Fatalf("call %d at %d: %+v, through a workspace %+v", call, now, out, ordinary)
				}
				var d algorithm.Decision
				if m.ReportFixed(&d, st, r, ticket.Groups[0].Charges[0].Cost, ticket.MaxDelay); d != out.Decisions[0] || r.Now != out.Now {
					t.Fatalf("call %d: without a ticket %+v at %d, with one %+v at %d", call, d, r.Now, out.Decisions[0], out.Now)
				}
				cancel()
			}
			if without.memory.mostShared() == 0 && m.Kind != algorithm.KindCalendar {
				t.Error("no counter was shared")
			}
			for _, other := range []*Store{with, through} {
				if a, b := contents(without), contents(other); !reflect.DeepEqual(a, b) {
					t.Errorf("%d slots without tickets and %d with them, or in another state", len(a), len(b))
				}
			}
		})
	}
}

// contents returns all slots of a store.
func contents(s *Store) (all []slot) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.lock() // the janitor may be running
		for j := range sh.size() {
			if at := sh.at(j); at.head != 0 {
				all = append(all, *at)
			}
		}
		sh.unlock()
	}
	return all
}

func TestSingleNeedsAFixedSize(t *testing.T) {
	s := open(t, Options{})
	for _, l := range []algorithm.Limit{
		{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Minute},
		{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Minute},
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Minute, CountAll: true},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 1 << 32, Window: time.Second},
	} {
		if s.Single(s, storage.RuleHasher{}, limit(t, l)) != nil {
			t.Errorf("%v needs tickets", l)
		}
	}
	embedded := struct{ *Store }{s} // it may have another Take
	if embedded.Single(embedded, storage.RuleHasher{}, limit(t, singleLimits()[0])) != nil {
		t.Error("a store that embeds this one does not decide itself")
	}
}

// A ticket that is decided without Validate must be one that Validate accepts.
func TestSingleTicketsAreValid(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	meters := []*algorithm.Meter{nil}
	for _, l := range append(singleLimits(),
		algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Second},
		algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Second},
		algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Second, CountAll: true},
	) {
		meters = append(meters, limit(t, l))
	}
	random := rand.New(rand.NewPCG(1, 2))
	rarely := func() bool { return random.IntN(8) == 0 }
	quick, rejected := 0, 0
	for range 200_000 {
		ticket := &storage.Ticket{Nonce: uint64(random.IntN(2)), Denied: rarely()}
		if rarely() {
			ticket.Now = []algorithm.Instant{-1, 1, algorithm.MaxInstant, algorithm.MaxInstant + 1}[random.IntN(4)]
		}
		if rarely() {
			ticket.MaxDelay = time.Duration(random.IntN(3) - 1)
		}
		for range [...]int{0, 1, 1, 1, 1, 1, 1, 2}[random.IntN(8)] {
			g := storage.Group{Alone: rarely()}
			for range [...]int{0, 1, 1, 1, 1, 1, 1, 2}[random.IntN(8)] {
				g.Charges = append(g.Charges, algorithm.Charge{Meter: meters[random.IntN(len(meters))], Cost: [...]int64{-1, 0, 1, 2, algorithm.MaxCount, algorithm.MaxCount + 1}[random.IntN(6)], Overdraw: rarely()})
			}
			if rarely() {
				g.Reserve = time.Minute
			}
			if rarely() {
				g.Penalty = &algorithm.Penalty{}
			}
			ticket.Groups = append(ticket.Groups, g)
		}
		err := ticket.Validate()
		if isSingle(ticket) {
			if quick++; err != nil {
				t.Fatalf("%+v is decided at once, but it is invalid: %v", ticket, err)
			}
		} else if err != nil {
			rejected++
		}
	}
	if quick < 10_000 || rejected < 10_000 {
		t.Errorf("%d tickets were decided at once and %d invalid, too few of one", quick, rejected)
	}
}

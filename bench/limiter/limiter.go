// Package limiter contains the limiters that are compared, ours and the peers', behind one interface: those that keep
// their state in process memory, and those that keep it in Redis.
//
// It is separate from the sections because several measure the same limiters.
package limiter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// A Limit is what every contestant enforces: Count at once, and again after Window.
type Limit struct {
	Count    int64
	Window   time.Duration
	MaxBytes int64 // of our store in memory; 0: its default
}

var (
	// Roomy is a limit that no benchmark in memory exhausts. It is the largest that all contestants support.
	Roomy = Limit{Count: 1_000_000_000, Window: time.Hour}

	// Spent is a limit that one request exhausts for longer than a benchmark lasts.
	Spent = Limit{Count: 1, Window: time.Hour}

	// Slow is a limit that no benchmark on Redis exhausts. It takes seconds to refill by one, so that a charged key
	// still exists at its next request.
	Slow = Limit{Count: 10_000_000, Window: 366 * 24 * time.Hour}
)

// with returns our limit with an algorithm.
func (l Limit) with(a penstock.Algorithm) penstock.Limit {
	return penstock.Limit{Algorithm: a, Count: l.Count, Window: l.Window}
}

// A Contestant is a way of limiting.
type Contestant struct {
	Name string
	Role report.Role
	Open func(b *lab.Bench, addr string, l Limit) lab.Limiter // addr is that of Redis

	// Bounded contestants allow no more than logCount requests of a key, so that one hot key cannot be measured.
	Bounded bool

	// MayGiveUp contestants fail if too many clients want the same key.
	MayGiveUp bool
}

// Names that goals and other benchmarks refer to.
const (
	Headline   = "penstock token_bucket"
	Batched    = "penstock token_bucket, 32 at a time"
	RedisRate  = "redis_rate v10"
	FourTrips  = "four round trips"
	OurLog     = "penstock sliding_window_log 100"
	OurTwo     = "penstock two limits per call"
	TheirTwo   = "sethvargo/go-limiter, two limits, one after the other"
	OurThree   = "penstock three limits per call"
	OurCounter = "penstock sliding_window_counter"
)

// Find returns the named contestant, or ends the section.
func Find(among []Contestant, name string) Contestant {
	i := slices.IndexFunc(among, func(c Contestant) bool { return c.Name == name })
	if i < 0 {
		lab.Check(fmt.Errorf("no contestant is called %q", name))
	}
	return among[i]
}

const (
	// logWindow replaces the window for limiters that remember each request: with a window of a year they would
	// remember the whole benchmark.
	logWindow = 10 * time.Second

	// logCount is the limit of our log: the maximum size of every key's log.
	logCount = 100

	// timeout is long, so that a busy machine slows a benchmark down and does not end it.
	timeout = 10 * time.Second
)

var oursInMemory = []Contestant{
	inMemory(Headline, penstock.TokenBucket),
	inMemory(OurCounter, penstock.SlidingWindowCounter),
	inMemory("penstock fixed_window", penstock.FixedWindow),
	{Name: Batched, Role: report.Ours, Open: openBatched},
	{Name: OurTwo, Role: report.Ours, Open: func(b *lab.Bench, _ string, l Limit) lab.Limiter {
		return openInMemory(b, l, l.with(penstock.TokenBucket), Limit{Count: l.Count, Window: 24 * time.Hour}.with(penstock.FixedWindow))
	}},
}

func inMemory(name string, a penstock.Algorithm) Contestant {
	return Contestant{Name: name, Role: report.Ours, Open: func(b *lab.Bench, _ string, l Limit) lab.Limiter { return openInMemory(b, l, l.with(a)) }}
}

// openInMemory opens what a program uses: a limiter on a memory store.
func openInMemory(b *lab.Bench, l Limit, limits ...penstock.Option) lab.Limiter {
	store := b.Memory(memstore.Options{MaxBytes: l.MaxBytes})
	limiter := lab.Must(penstock.New(store, limits...))
	open := lab.Shared(func(ctx context.Context, key string) (bool, error) {
		d, err := limiter.Allow(ctx, key)
		return d.Allowed, err
	})
	// Half of the capacity, because a nearly unused counter soon equals an unused one and is dropped.
	open.Warm = func(ctx context.Context, key string) (bool, error) {
		d, err := limiter.Take(ctx, key, max(1, l.Count/2))
		return d.Allowed, err
	}
	open.Stats = store.Stats
	return open
}

// openBatched opens what a service does for each list of requests, as over an API that accepts lists: it hashes the
// keys, fills tickets, and gets full decisions into outcomes that it reuses.
func openBatched(b *lab.Bench, _ string, l Limit) lab.Limiter {
	store, meter := b.Memory(memstore.Options{MaxBytes: l.MaxBytes}), lab.Must(l.with(penstock.TokenBucket).Compile())
	hasher := storage.NewHasher("bench").Rule("bench", "limit", "key")
	ticket := func(cost int64) storage.Ticket {
		return storage.Ticket{Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: meter, Cost: cost}}}}}
	}
	return lab.Limiter{
		// Caller collects requests and decides them together. For each request it returns the decision at the same
		// place of the previous batch; the first batch is decided one by one.
		Caller: func() lab.TakeFunc {
			const size = 32
			turns := make([]storage.BatchItem, size)
			for i := range turns {
				turns[i].Ticket = ticket(1)
			}
			n, filled := 0, false
			return func(ctx context.Context, key string) (bool, error) {
				t := &turns[n]
				allowed, err := t.Outcome.Allowed, t.Err
				t.Ticket.Groups[0].Subject = hasher.Subject(key)
				if !filled {
					err = store.Take(ctx, &t.Ticket, &t.Outcome)
					allowed = t.Outcome.Allowed
				}
				if n++; n == size {
					if filled {
						store.TakeEach(ctx, turns)
					}
					n, filled = 0, true
				}
				return allowed, err
			}
		},
		Warm: func(ctx context.Context, key string) (bool, error) {
			t, out := ticket(max(1, meter.Capacity/2)), storage.Outcome{}
			t.Groups[0].Subject = hasher.Subject(key)
			err := store.Take(ctx, &t, &out)
			return out.Allowed, err
		},
		Stats: store.Stats,
	}
}

// lasting returns the cost at which a key is warmed, for limiters that drop a key once it has refilled. Of Slow, it
// takes most of an hour to refill.
func (l Limit) lasting() int64 { return max(1, l.Count/10_000) }

var oursOnRedis = []Contestant{
	onRedis(Headline, penstock.TokenBucket),
	onRedis(OurCounter, penstock.SlidingWindowCounter),
	{Name: OurLog, Role: report.Ours, Bounded: true, Open: func(b *lab.Bench, addr string, l Limit) lab.Limiter {
		l = Limit{Count: min(l.Count, logCount), Window: min(l.Window, logWindow)}
		return onRedis(OurLog, penstock.SlidingWindowLog).Open(b, addr, l)
	}},
	onRedis(OurTwo, penstock.TokenBucket, penstock.SlidingWindowCounter),
}

// ThreeLimits is for weighing only.
var ThreeLimits = onRedis(OurThree, penstock.TokenBucket, penstock.SlidingWindowCounter, penstock.FixedWindow)

// onRedis returns our store with a limit of each algorithm, in one rule with the contestant's name, so that no two
// contestants share keys.
func onRedis(name string, algorithms ...penstock.Algorithm) Contestant {
	return Contestant{Name: name, Role: report.Ours, Open: func(b *lab.Bench, addr string, l Limit) lab.Limiter {
		store, hasher := b.Store(addr), storage.NewHasher("bench")
		var meters []*algorithm.Meter
		for _, a := range algorithms {
			meters = append(meters, lab.Must(l.with(a).Compile()))
		}
		caller := func(cost int64) lab.TakeFunc {
			ticket, out := &storage.Ticket{Groups: make([]storage.Group, 1)}, &storage.Outcome{}
			for _, m := range meters {
				ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, algorithm.Charge{Meter: m, Cost: cost})
			}
			return func(ctx context.Context, key string) (bool, error) {
				ticket.Groups[0].Subject = hasher.Subject("bench", name, penstock.Attribute{Name: "key", Value: key})
				err := store.Take(ctx, ticket, out)
				return out.Allowed, err
			}
		}
		return lab.Limiter{
			Caller: func() lab.TakeFunc { return caller(1) },
			Warm:   func(ctx context.Context, key string) (bool, error) { return caller(l.lasting())(ctx, key) },
		}
	}}
}

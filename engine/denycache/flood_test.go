package denycache_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A client that does not stop costs the store a request a second, by the tickets' time and by the clock's.
func TestFlood(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	const calls, lasting = 100_000, 10 * time.Second
	for name, instant := range map[string]func(i int) penstock.Instant{
		"by tickets":   func(i int) penstock.Instant { return start + penstock.Instant(i)*10*second/calls },
		"by the clock": func(int) penstock.Instant { time.Sleep(lasting / calls); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(cached)
				g := s.punished(group(hourly(1), 1))
				plain := group(hourly(1), 1)
				plain.Subject[8]++
				for i := range 4 { // one passes, three are strikes
					s.take(instant(i), g)
					s.take(instant(i), plain)
				}
				before := s.store.asked.Load()
				for i := range calls {
					at := instant(4 + i)
					s.denies(at, g)
					s.denies(at, plain)
				}
				asked := s.store.asked.Load() - before
				if most := int64(2 * lasting / time.Second); asked > most {
					t.Errorf("the store was asked about %d tickets of %d, at most %d are fair", asked, 2*calls, most)
				}
				if err := s.verdict(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// With time between sending, deciding and receiving, a denial ends at the earliest estimate, and the client's
// wait is computed from the latest.
func TestFarStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way, window = 100 * time.Millisecond, time.Hour
		time.Sleep(time.Until(time.Now().Truncate(window).Add(window - time.Second)))
		end := time.Now().Add(time.Second) // of the window
		far := &countingStore{CompleteStore: distantStore{storetest.NewModel(), way}}
		c := newCache(t, far)
		take := func() (out storage.Outcome) {
			ticket := storage.Ticket{Groups: []storage.Group{group(hourly(1), 1)}}
			if err := c.Take(t.Context(), &ticket, &out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		if !take().Allowed || take().Allowed || far.asked.Load() != 2 {
			t.Fatal("not one that passes and one that is denied")
		}

		time.Sleep(time.Until(end) - way - 1*time.Microsecond)
		out := take()
		if far.asked.Load() != 2 || out.Allowed {
			t.Fatalf("just before the end: asked %d times, %+v", far.asked.Load(), out)
		}
		if wait := out.Decisions[0].RetryAfter; wait < time.Until(end) || wait > time.Until(end)+2*way {
			t.Errorf("told to wait %v, the window ends in %v", wait, time.Until(end))
		}
		time.Sleep(1 * time.Microsecond)
		if out = take(); far.asked.Load() != 3 || !out.Allowed {
			t.Errorf("when the ticket arrives at the end: asked %d times, %+v", far.asked.Load(), out)
		}
	})
}

// Only the store knows whether a ban is over by then, and what follows may be a strike: even if another group
// denies the request in any case.
func TestFarBan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way, length = 100 * time.Millisecond, time.Second
		far := &countingStore{CompleteStore: distantStore{storetest.NewModel(), way}}
		s := &testNode{store: far, node: newCache(t, far)}
		full, barred := group(hourly(1), 2), s.punished(group(hourly(100), 1))
		barred.Subject[8]++
		s.ban(0, barred, length)
		end := time.Now().Add(length)
		s.denies(0, full, barred)
		s.asks(0, func() { s.denies(0, full, barred) })
		time.Sleep(time.Until(end) - way - time.Microsecond)
		s.asks(0, func() { s.denies(0, full, barred) })
		time.Sleep(time.Microsecond)
		s.asks(1, func() { s.denies(0, full, barred) })
		if err := s.verdict(); err != nil {
			t.Error(err)
		}
	})
}

// distantStore is a store with a delay on the way there and back.
type distantStore struct {
	storetest.CompleteStore
	way time.Duration
}

func (d distantStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	time.Sleep(d.way)
	defer time.Sleep(d.way)
	return d.CompleteStore.Take(ctx, t, out)
}

// A denial that the store gave before a reset, and that arrives after it, is out of date.
func TestDenialOvertakenByReset(t *testing.T) {
	for name, overtake := range map[string]func(c *denycache.Cache, g *storage.Group) error{
		"reset":  func(c *denycache.Cache, g *storage.Group) error { return c.Reset(context.Background(), g) },
		"forget": func(c *denycache.Cache, g *storage.Group) error { c.Forget(g.Subject); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := group(hourly(1), 1)
			store := &overtakenStore{countingStore: countingStore{CompleteStore: storetest.NewModel()}}
			c := newCache(t, store)
			take := func(at penstock.Instant) (out storage.Outcome) {
				if err := c.Take(t.Context(), &storage.Ticket{Now: at, Groups: []storage.Group{g}}, &out); err != nil {
					t.Fatal(err)
				}
				return out
			}
			take(start)
			store.meanwhile = func() {
				if err := overtake(c, &g); err != nil {
					t.Error(err)
				}
			}
			if take(start + 1).Allowed {
				t.Fatal("not denied, so there is nothing to overtake")
			}
			store.meanwhile = nil
			take(start + 2)
			if got := store.asked.Load(); got != 3 {
				t.Errorf("the store was asked about %d tickets of 3", got)
			}
		})
	}
}

// overtakenStore is a store in which something happens between its decision and its answer.
type overtakenStore struct {
	countingStore
	meanwhile func()
}

func (s *overtakenStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	err := s.countingStore.Take(ctx, t, out)
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return err
}

// Nodes that learn nothing from each other still allow exactly what the store would: a denial stays right,
// whatever other nodes do. The table is so small that subjects always displace each other.
func TestFleet(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	r := rand.New(rand.NewPCG(1, 2))
	alone, shared := storetest.NewModel(), storetest.NewModel()
	var nodes []*denycache.Cache
	for range 3 {
		c, err := denycache.New(storetest.Full(shared), denycache.Options{MaxEntries: 16})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, c)
	}
	rules := fleetRules()
	now := start
	for i := range 100_000 {
		now += penstock.Instant(r.Int64N(5000))
		ticket := storage.Ticket{Now: now, MaxDelay: time.Duration(r.IntN(2)) * 50 * time.Millisecond}
		for _, k := range r.Perm(len(rules))[:1+r.IntN(2)] {
			g := storage.Group{Charges: withCost(rules[k], 1+r.Int64N(4))}
			binary.BigEndian.PutUint16(g.Subject[14:], uint16(k*256+r.IntN(5)))
			ticket.Groups = append(ticket.Groups, g)
		}
		var want, got storage.Outcome
		if err := alone.Take(t.Context(), &ticket, &want); err != nil {
			t.Fatal(err)
		}
		if err := nodes[r.IntN(len(nodes))].Take(t.Context(), &ticket, &got); err != nil {
			t.Fatal(err)
		}
		if want.Allowed != got.Allowed {
			t.Fatalf("call %d: pass is %v, by the store alone %v:\n%+v\n%+v", i, got.Allowed, want.Allowed, got, want)
		}
	}
	for i, c := range nodes {
		if s := c.Stats(); s.Hits < 1000 || s.Misses < 1000 || s.Entries == 0 || s.Entries > 16 {
			t.Errorf("node %d: %+v", i, s)
		}
	}
}

// fleetRules are the limits of some rules, of every kind that can be answered.
func fleetRules() [][]*algorithm.Meter {
	limit := func(a penstock.Algorithm, count int64, window time.Duration) penstock.Limit {
		return penstock.Limit{Algorithm: a, Count: count, Window: window}
	}
	interval := limit(penstock.TokenBucket, 10, 200*time.Millisecond)
	interval.Refill = penstock.Interval
	leaky := limit(penstock.LeakyBucket, 20, time.Second)
	leaky.Queue = 5
	return [][]*algorithm.Meter{
		{limit(penstock.FixedWindow, 10, 500*time.Millisecond).MustCompile(), limit(penstock.FixedWindow, 50, 5*time.Second).MustCompile()},
		{limit(penstock.SlidingWindowCounter, 20, time.Second).MustCompile()},
		{limit(penstock.TokenBucket, 30, time.Second).MustCompile(), interval.MustCompile()},
		{leaky.MustCompile()},
		{limit(penstock.SlidingWindowLog, 10, time.Second).MustCompile()},
	}
}

func withCost(meters []*algorithm.Meter, cost int64) (charges []algorithm.Charge) {
	for _, m := range meters {
		charges = append(charges, algorithm.Charge{Meter: m, Cost: cost})
	}
	return charges
}

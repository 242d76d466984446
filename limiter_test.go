package penstock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

func openMemory(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openRedis(t testing.TB, server *redistest.Server) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newLimiter(t testing.TB, store penstock.Store, options ...penstock.Option) *penstock.Limiter {
	t.Helper()
	l, err := penstock.New(store, options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// allowed counts how many of n requests pass, one after the other.
func allowed(t testing.TB, l *penstock.Limiter, key string, n int) (passed int) {
	t.Helper()
	for range n {
		d, err := l.Allow(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			passed++
		}
	}
	return passed
}

// bothStores runs a test on memory and on Redis.
func bothStores(t *testing.T, test func(*testing.T, penstock.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, openMemory(t)) })
	t.Run("redis", func(t *testing.T) { test(t, openRedis(t, redistest.Start(t))) })
}

// Of many requests at the same time exactly the limit passes, and the wider limit is charged with no more
// than passed.
func TestLimiterAllowsExactlyTheLimit(t *testing.T) {
	const limit, clients, each = 50, 16, 20
	bothStores(t, func(t *testing.T, store penstock.Store) {
		day := penstock.PerDay(1000).TokenBucket(1000)
		l := newLimiter(t, store, penstock.PerDay(limit).SlidingLog(), day, penstock.WithName("exact"))
		var passed atomic.Int64
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for range each {
					d, err := l.Allow(context.Background(), "alice")
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						passed.Add(1)
					}
				}
			})
		}
		all.Wait()
		if passed.Load() != limit {
			t.Errorf("%d requests passed at a limit of %d", passed.Load(), limit)
		}
		wider := newLimiter(t, store, day, penstock.WithName("exact"))
		if d, err := wider.Peek(t.Context(), "alice"); err != nil || d.Used != limit {
			t.Errorf("the wider limit was charged %d (%v); only %d passed", d.Used, err, limit)
		}
		if got := allowed(t, l, "bob", 1); got != 1 {
			t.Error("another key was denied")
		}
	})
}

func TestLimiterReset(t *testing.T) {
	bothStores(t, func(t *testing.T, store penstock.Store) {
		l := newLimiter(t, store, penstock.PerDay(2), penstock.PerDay(3).TokenBucket(3), penstock.WithName("reset"))
		before := allowed(t, l, "alice", 3)
		if err := l.Reset(t.Context(), "alice"); err != nil {
			t.Fatal(err)
		}
		if after := allowed(t, l, "alice", 3); before != 2 || after != 2 {
			t.Errorf("%d passed before the reset and %d after it, want 2 and 2", before, after)
		}
	})
}

func TestLimiterPeek(t *testing.T) {
	l := newLimiter(t, openMemory(t), penstock.PerDay(2).SlidingLog())
	for want := int64(2); want >= 0; want-- {
		for range 2 { // the second sees the same as the first
			d, err := l.Peek(t.Context(), "alice")
			if err != nil || d.Remaining != want || d.Allowed != (want > 0) {
				t.Errorf("peek: %+v, %v; want %d remaining", d, err, want)
			}
		}
		allowed(t, l, "alice", 1)
	}
}

func TestLimiterReservations(t *testing.T) {
	bothStores(t, func(t *testing.T, store penstock.Store) {
		ctx := t.Context()
		options := []penstock.Option{penstock.PerDay(1000).TokenBucket(1000), penstock.WithName("tokens"), penstock.WithSecret("s")}
		l := newLimiter(t, store, options...)
		d, reservation, err := l.Reserve(ctx, "alice", 800)
		if err != nil || !d.Allowed || reservation == "" || d.Remaining != 200 {
			t.Fatalf("reserve: %+v, %q, %v", d, reservation, err)
		}
		if d, denied, err := l.Reserve(ctx, "alice", 300); err != nil || d.Allowed || denied != "" {
			t.Errorf("a second reservation: %+v, %q, %v; want a denial", d, denied, err)
		}
		other := newLimiter(t, store, options...) // as on another node
		if err := other.Renew(ctx, reservation); err != nil {
			t.Errorf("renew: %v", err)
		}
		for range 2 { // the reply may have been lost: it takes effect once
			if d, err := other.Settle(ctx, reservation, 250); err != nil || !d.Allowed || d.Used != 250 {
				t.Errorf("settle: %+v, %v; want 250 used", d, err)
			}
		}
		if err := l.Release(ctx, reservation); !errors.Is(err, penstock.ErrClosed) {
			t.Errorf("release after settle: %v, want %v", err, penstock.ErrClosed)
		}
		_, reservation, err = l.Reserve(ctx, "alice", 100)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.Settle(ctx, reservation, 5000); err != nil || d.Remaining != 0 || d.Used != 1000 {
			t.Errorf("settle above the limit: %+v, %v; want as much charged as there is", d, err)
		}
		_, reservation, err = l.Reserve(ctx, "bob", 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx, reservation); err != nil {
			t.Error(err)
		}
		if d, err := l.Peek(ctx, "bob"); err != nil || d.Used != 0 {
			t.Errorf("after the release: %+v, %v", d, err)
		}
	})
}

// A reservation is valid only for the limiter that made it, and cannot be forged.
func TestLimiterRefusesStrangeReservations(t *testing.T) {
	store := openMemory(t)
	limit := penstock.PerDay(10).TokenBucket(10)
	l := newLimiter(t, store, limit, penstock.WithName("a"))
	_, reservation, err := l.Reserve(t.Context(), "alice", 5)
	if err != nil {
		t.Fatal(err)
	}
	last := "A"
	if strings.HasSuffix(reservation, "A") {
		last = "B"
	}
	for name, test := range map[string]struct {
		of          *penstock.Limiter
		reservation string
	}{
		"another name":    {newLimiter(t, store, limit, penstock.WithName("b")), reservation},
		"another secret":  {newLimiter(t, store, limit, penstock.WithName("a"), penstock.WithSecret("s")), reservation},
		"other limits":    {newLimiter(t, store, limit, penstock.PerHour(9), penstock.WithName("a")), reservation},
		"without a name":  {newLimiter(t, store, limit), reservation},
		"empty":           {l, ""},
		"changed":         {l, reservation[:len(reservation)-1] + last},
		"with a line end": {l, reservation + "\n"},
		"too long":        {l, strings.Repeat("A", 1<<20)},
	} {
		if err := test.of.Release(t.Context(), test.reservation); !errors.Is(err, penstock.ErrNoReservation) {
			t.Errorf("%s: %v, want %v", name, err, penstock.ErrNoReservation)
		}
	}
	if err := newLimiter(t, store, penstock.PerDay(20).TokenBucket(20), penstock.WithName("a")).Release(t.Context(), reservation); err != nil {
		t.Errorf("with another count: %v", err)
	}
}

func TestLimiterConcurrency(t *testing.T) {
	bothStores(t, func(t *testing.T, store penstock.Store) {
		ctx := t.Context()
		l := newLimiter(t, store, penstock.Concurrent(2), penstock.WithName("jobs"), penstock.WithReserveTTL(time.Hour))
		var held []string
		for i := range 3 {
			d, permit, err := l.Reserve(ctx, "alice", 1)
			if err != nil || d.Allowed != (i < 2) || (permit != "") != d.Allowed {
				t.Fatalf("permit %d: %+v, %q, %v", i, d, permit, err)
			}
			held = append(held, permit)
		}
		for range 2 { // again is a no-op
			if err := l.Release(ctx, held[0]); err != nil {
				t.Errorf("release: %v", err)
			}
		}
		if _, err := l.Settle(ctx, held[0], 1); err != nil { // a permit has no cost to disagree about
			t.Errorf("settle after release: %v", err)
		}
		if err := l.Renew(ctx, held[1]); err != nil {
			t.Errorf("renew: %v", err)
		}
		if d, _, err := l.Reserve(ctx, "alice", 1); err != nil || !d.Allowed {
			t.Errorf("after a release: %+v, %v", d, err)
		}
		if _, err := l.Allow(ctx, "bob"); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("allow without a way to release: %v, want %v", err, penstock.ErrInvalid)
		}
		if d, err := l.Peek(ctx, "bob"); err != nil || d.Used != 0 {
			t.Errorf("it took a permit: %+v, %v", d, err)
		}
	})
}

// A leaky bucket's request that would have to wait is denied and told when to retry.
func TestLimiterDoesNotWait(t *testing.T) {
	l := newLimiter(t, openMemory(t), penstock.PerHour(1).LeakyBucket(5))
	if got := allowed(t, l, "alice", 3); got != 1 {
		t.Errorf("%d passed without waiting, want 1", got)
	}
	if d, err := l.Allow(t.Context(), "alice"); err != nil || d.Remaining != 0 || d.RetryAfter <= 0 || d.Delay != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Counters are those of the name and secret. Limiters that share neither share nothing.
func TestLimiterNames(t *testing.T) {
	server := redistest.Start(t)
	redis, again := openRedis(t, server), openRedis(t, server)
	if _, err := penstock.New(redis, penstock.PerDay(3)); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), "WithName") {
		t.Errorf("without a name on Redis: %v", err)
	}
	memory := openMemory(t)
	name := penstock.WithName
	for what, test := range map[string]struct {
		one, other *penstock.Limiter
		shared     bool
	}{
		"one name on two nodes":     {newLimiter(t, redis, penstock.PerDay(1), name("a")), newLimiter(t, again, penstock.PerDay(1), name("a")), true},
		"two names on Redis":        {newLimiter(t, redis, penstock.PerDay(1), name("b")), newLimiter(t, again, penstock.PerDay(1), name("c")), false},
		"two secrets":               {newLimiter(t, redis, penstock.PerDay(1), name("d")), newLimiter(t, redis, penstock.PerDay(1), name("d"), penstock.WithSecret("s")), false},
		"no names in memory":        {newLimiter(t, memory, penstock.PerDay(1)), newLimiter(t, memory, penstock.PerDay(1)), false},
		"one name in memory":        {newLimiter(t, memory, penstock.PerDay(1), name("a")), newLimiter(t, memory, penstock.PerDay(1), name("a")), true},
		"another count of one name": {newLimiter(t, memory, penstock.PerDay(1), name("e")), newLimiter(t, memory, penstock.PerDay(2), name("e"), name("e")), true},
	} {
		if got := allowed(t, test.one, "alice", 1); got != 1 {
			t.Errorf("%s: the first request was denied", what)
		}
		if d, err := test.other.Peek(t.Context(), "alice"); err != nil || (d.Used == 1) != test.shared {
			t.Errorf("%s: the other counts %d, %v; want them shared: %v", what, d.Used, err, test.shared)
		}
	}
}

// While the store is down, requests are denied with an error, or allowed with one.
func TestLimiterWithoutItsStore(t *testing.T) {
	server := redistest.Start(t)
	redis, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	closed := newLimiter(t, redis, penstock.PerMinute(10), penstock.WithName("closed"))
	open := newLimiter(t, redis, penstock.PerMinute(10), penstock.WithName("open"), penstock.FailOpen())
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		limiter *penstock.Limiter
		allows  bool
	}{"closed": {closed, false}, "open": {open, true}} {
		d, err := test.limiter.Allow(t.Context(), "alice")
		if !errors.Is(err, penstock.ErrUnavailable) || d.Allowed != test.allows {
			t.Errorf("%s: %+v, %v", what, d, err)
		}
		var v penstock.Verdict
		c := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: penstock.KeyAttribute, Value: "alice"}}}
		err = test.limiter.Decide(t.Context(), &c, &v)
		if !errors.Is(err, penstock.ErrUnavailable) || v.Allowed != test.allows || v.Reason != penstock.ReasonStoreError {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
	}
	if d, err := open.Take(t.Context(), "alice", -1); !errors.Is(err, penstock.ErrInvalid) || d.Allowed {
		t.Errorf("a negative cost: %+v, %v; a mistake is not a store that is down", d, err)
	}
}

// A cancelled request does not pass because the store was not asked.
func TestFailOpenDeniesCancelled(t *testing.T) {
	l := newLimiter(t, openMemory(t), penstock.PerMinute(10), penstock.FailOpen())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := l.Allow(ctx, "alice"); err == nil || d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

// A request without a key is invalid: it must not pass without a limit.
func TestLimiterNeedsAKey(t *testing.T) {
	l := newLimiter(t, openMemory(t), penstock.PerMinute(10), penstock.FailOpen())
	v := penstock.Verdict{Allowed: true}
	if err := l.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); !errors.Is(err, penstock.ErrInvalid) || v.Allowed {
		t.Errorf("%+v, %v", v, err)
	}
}

// An empty key is a key like any other.
func TestLimiterCountsEmptyKeys(t *testing.T) {
	if got := allowed(t, newLimiter(t, openMemory(t), penstock.PerDay(2)), "", 3); got != 2 {
		t.Errorf("%d requests with an empty key passed at a limit of 2", got)
	}
}

// A burst of 0 means the count. A cost above the burst never passes.
func TestTokenBucketWithoutABurst(t *testing.T) {
	l := newLimiter(t, openMemory(t), penstock.PerDay(100).TokenBucket(0))
	if d, err := l.Take(t.Context(), "a", 101); err != nil || d.Allowed || d.RetryAfter != penstock.Never {
		t.Errorf("a cost of 101: %+v, %v", d, err)
	}
	if got := allowed(t, l, "a", 101); got != 100 {
		t.Errorf("%d passed at once, want 100", got)
	}
}

// strangeOption has the method of an option but is not one.
type strangeOption struct{}

func (strangeOption) IsLimiterOption() {}

func TestNewTellsEveryMistake(t *testing.T) {
	_, err := penstock.New(struct{ penstock.Store }{openMemory(t)}, strangeOption{},
		penstock.WithName("Search"), penstock.WithReserveTTL(-1), penstock.Concurrent(1), penstock.PerMinute(-1),
		penstock.PerSecond(1).TokenBucket(5), penstock.PerSecond(2).TokenBucket(7))
	for _, want := range []string{`name "Search"`, "reserve TTL", "storage.Settler", "count -1", "same algorithm and window", "penstock_test.strangeOption"} {
		if !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
	_, err = penstock.New(nil, penstock.WithName("a"), nil)
	for _, want := range []string{"no store", "0 limits"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
	var failed *memstore.Store // of a program that ignored an error
	_, err = penstock.New(failed, penstock.PerMinute(-1))
	for _, want := range []string{"the store is a nil *memstore.Store; check the error", "count -1"} {
		if !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("no word of %q in: %v", want, err)
		}
	}
	for _, name := range []string{"-a", ".", "a b", strings.Repeat("a", 64), "é"} {
		if _, err := penstock.New(openMemory(t), penstock.PerMinute(1), penstock.WithName(name)); !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

func TestAllowAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	one, two := penstock.PerMinute(1_000_000), penstock.PerHour(1_000_000).TokenBucket(1_000_000)
	for _, limits := range [][]penstock.Option{{one}, {two}, {one, two}} {
		l := newLimiter(t, openMemory(t), limits...)
		allow := func() {
			if d, err := l.Allow(t.Context(), "alice"); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		allow()
		if got := testing.AllocsPerRun(100, allow); got != 0 {
			t.Errorf("%v allocations for a decision by %v", got, limits)
		}
	}
}

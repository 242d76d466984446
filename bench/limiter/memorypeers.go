package limiter

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	juju "github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

func peersInMemory() []Contestant {
	return []Contestant{
		{Name: "x/time/rate, sharded map", Role: report.Peer, Open: openRateSharded},
		{Name: "x/time/rate, sync.Map", Role: report.Peer, Open: openRateSyncMap},
		{Name: "juju/ratelimit, sharded map", Role: report.Peer, Open: openJuju},
		{Name: "sethvargo/go-limiter", Role: report.Peer, Open: openSethvargo},
		{Name: TheirTwo, Role: report.Peer, Open: openSethvargoTwice},
		{Name: "throttled memstore", Role: report.Peer, Open: openThrottled},
		{Name: "ulule/limiter", Role: report.Peer, Open: openUlule},
	}
}

// shardedMap is the usual way of giving every key its own object.
type shardedMap[T any] struct {
	seed   maphash.Seed
	shards [1024]struct {
		sync.Mutex
		objects map[string]T
		_       [48]byte // a cache line each
	}
}

func newShardedMap[T any]() *shardedMap[T] {
	m := &shardedMap[T]{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].objects = make(map[string]T)
	}
	return m
}

func (m *shardedMap[T]) get(key string, create func() T) T {
	s := &m.shards[maphash.String(m.seed, key)%uint64(len(m.shards))]
	s.Lock()
	object, ok := s.objects[key]
	if !ok {
		object = create()
		s.objects[key] = object
	}
	s.Unlock()
	return object
}

func newRate(l Limit) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(l.Count)/l.Window.Seconds()), int(l.Count))
}

func openRateSharded(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	m := newShardedMap[*rate.Limiter]()
	create := func() *rate.Limiter { return newRate(l) }
	return simple{take: func(_ context.Context, key string) (bool, error) { return m.get(key, create).Allow(), nil }}, nil
}

func openRateSyncMap(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	var m sync.Map
	return simple{take: func(_ context.Context, key string) (bool, error) {
		object, ok := m.Load(key)
		if !ok {
			object, _ = m.LoadOrStore(key, newRate(l))
		}
		return object.(*rate.Limiter).Allow(), nil
	}}, nil
}

func openJuju(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	m := newShardedMap[*juju.Bucket]()
	create := func() *juju.Bucket { return juju.NewBucket(l.Window/time.Duration(l.Count), l.Count) }
	return simple{take: func(_ context.Context, key string) (bool, error) {
		return m.get(key, create).TakeAvailable(1) == 1, nil
	}}, nil
}

func openSethvargo(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.Count), Interval: l.Window})
	if err != nil {
		return nil, err
	}
	return simple{
		take: func(ctx context.Context, key string) (bool, error) {
			_, _, _, allowed, err := store.Take(ctx, key)
			return allowed, err
		},
		close: func() error { return store.Close(context.Background()) },
	}, nil
}

// openSethvargoTwice has two limits, the second for a day. If the second denies, the first has been charged.
func openSethvargoTwice(ctx context.Context, addr string, l Limit) (lab.Limiter, error) {
	first, err := openSethvargo(ctx, addr, l)
	if err != nil {
		return nil, err
	}
	second, err := openSethvargo(ctx, addr, Limit{Count: l.Count, Window: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	takeFirst, takeSecond := first.Caller(), second.Caller()
	return simple{
		take: func(ctx context.Context, key string) (bool, error) {
			if allowed, err := takeFirst(ctx, key); err != nil || !allowed {
				return false, err
			}
			return takeSecond(ctx, key)
		},
		close: func() error { return errors.Join(first.Close(), second.Close()) },
	}, nil
}

func openThrottled(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, err
	}
	limiter, take, err := throttledOn(store, l)
	if err != nil {
		return nil, err
	}
	// Two clients of one key may disturb each other any number of times; giving up is not a decision.
	limiter.SetMaxCASAttemptsLimit(1 << 30)
	return simple{take: take}, nil
}

func throttledOn(store throttled.GCRAStoreCtx, l Limit) (*throttled.GCRARateLimiterCtx, lab.TakeFunc, error) {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(l.Count), l.Window), MaxBurst: int(l.Count) - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	return limiter, func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}, err
}

func openUlule(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	return simple{take: ululeOn(ululemem.NewStore(), l)}, nil
}

func ululeOn(store ulule.Store, l Limit) lab.TakeFunc {
	limiter := ulule.New(store, ulule.Rate{Limit: l.Count, Period: l.Window})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := limiter.Get(ctx, key)
		return !c.Reached, err
	}
}

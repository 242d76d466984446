package inprocess

import (
	"context"
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

	"github.com/penstock-io/penstock/bench/report"
)

func peers() []Contestant {
	return []Contestant{
		{"x/time/rate, sharded map", report.Peer, openRateSharded},
		{"x/time/rate, sync.Map", report.Peer, openRateSyncMap},
		{"juju/ratelimit, sharded map", report.Peer, openJuju},
		{"sethvargo/go-limiter", report.Peer, openSethvargo},
		{"throttled memstore", report.Peer, openThrottled},
		{"ulule/limiter", report.Peer, openUlule},
	}
}

// sharedLimiter is a limiter that keeps nothing per goroutine and drops no key too early.
type sharedLimiter struct {
	take  TakeFunc
	close func() error
}

func (s sharedLimiter) Caller() TakeFunc { return s.take }

func (s sharedLimiter) Warm(key string) error {
	_, err := s.take(key)
	return err
}

func (s sharedLimiter) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
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

func openRateSharded(l Limit) (Limiter, error) {
	m := newShardedMap[*rate.Limiter]()
	create := func() *rate.Limiter { return newRate(l) }
	return sharedLimiter{take: func(key string) (bool, error) { return m.get(key, create).Allow(), nil }}, nil
}

func openRateSyncMap(l Limit) (Limiter, error) {
	var m sync.Map
	return sharedLimiter{take: func(key string) (bool, error) {
		object, ok := m.Load(key)
		if !ok {
			object, _ = m.LoadOrStore(key, newRate(l))
		}
		return object.(*rate.Limiter).Allow(), nil
	}}, nil
}

func openJuju(l Limit) (Limiter, error) {
	m := newShardedMap[*juju.Bucket]()
	create := func() *juju.Bucket { return juju.NewBucket(l.Window/time.Duration(l.Count), l.Count) }
	return sharedLimiter{take: func(key string) (bool, error) { return m.get(key, create).TakeAvailable(1) == 1, nil }}, nil
}

func openSethvargo(l Limit) (Limiter, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.Count), Interval: l.Window})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	return sharedLimiter{
		take: func(key string) (bool, error) {
			_, _, _, allowed, err := store.Take(ctx, key)
			return allowed, err
		},
		close: func() error { return store.Close(ctx) },
	}, nil
}

func openThrottled(l Limit) (Limiter, error) {
	store, err := throttledmem.NewCtx(0)
	if err != nil {
		return nil, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(l.Count), l.Window), MaxBurst: int(l.Count) - 1}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return nil, err
	}
	// Two clients of one key may disturb each other any number of times; giving up is not a decision.
	limiter.SetMaxCASAttemptsLimit(1 << 30)
	ctx := context.Background()
	return sharedLimiter{take: func(key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}}, nil
}

func openUlule(l Limit) (Limiter, error) {
	limiter := ulule.New(ululemem.NewStore(), ulule.Rate{Limit: l.Count, Period: l.Window})
	ctx := context.Background()
	return sharedLimiter{take: func(key string) (bool, error) {
		c, err := limiter.Get(ctx, key)
		return !c.Reached, err
	}}, nil
}

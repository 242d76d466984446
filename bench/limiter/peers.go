package limiter

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	juju "github.com/juju/ratelimit"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	throttledmem "github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"golang.org/x/time/rate"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// InMemory are the contestants that keep their state in process memory, ours first.
var InMemory = slices.Concat(oursInMemory, []Contestant{
	memoryPeer("x/time/rate, sharded map", takeRateSharded),
	memoryPeer("x/time/rate, sync.Map", takeRateSyncMap),
	memoryPeer("juju/ratelimit, sharded map", takeJuju),
	memoryPeer("sethvargo/go-limiter", takeSethvargo),
	memoryPeer(TheirTwo, takeSethvargoTwice),
	memoryPeer("throttled memstore", takeThrottled),
	memoryPeer("ulule/limiter", func(_ *lab.Bench, l Limit) lab.TakeFunc { return takeUlule(ululemem.NewStore(), l) }),
})

// OnRedis are those that keep it in Redis, ours first, the ceilings last.
var OnRedis = slices.Concat(oursOnRedis, []Contestant{
	goRedisPeer(RedisRate, takeRedisRate),
	throttledOnRedis(),
	goRedisPeer("ulule redis", func(c *goredis.Client, l Limit) func(int) lab.TakeFunc {
		take := takeUlule(lab.Must(ululeredis.NewStore(c)), l)
		return func(int) lab.TakeFunc { return take } // a key lasts for the whole window
	}),
}, byHand)

func memoryPeer(name string, take func(*lab.Bench, Limit) lab.TakeFunc) Contestant {
	return Contestant{Name: name, Role: report.Peer, Open: func(b *lab.Bench, _ string, l Limit) lab.Limiter { return lab.Shared(take(b, l)) }}
}

// goRedisPeer connects with the library's defaults, except that it never retries: a charge that is sent again counts
// again. take returns what charges a cost.
func goRedisPeer(name string, take func(c *goredis.Client, l Limit) func(cost int) lab.TakeFunc) Contestant {
	return Contestant{Name: name, Role: report.Peer, Open: func(b *lab.Bench, addr string, l Limit) lab.Limiter {
		client := goredis.NewClient(&goredis.Options{
			Addr: addr, MaxRetries: -1,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		})
		b.Cleanup(func() { _ = client.Close() })
		of := take(client, l)
		open := lab.Shared(of(1))
		open.Warm = of(int(l.lasting()))
		return open
	}}
}

// shardedMap is the usual way of giving every key its own object.
type shardedMap[T any] struct {
	seed   maphash.Seed
	create func() T
	shards [1024]struct {
		sync.Mutex
		objects map[string]T
		_       [48]byte // a cache line each
	}
}

func newShardedMap[T any](create func() T) *shardedMap[T] {
	m := &shardedMap[T]{seed: maphash.MakeSeed(), create: create}
	for i := range m.shards {
		m.shards[i].objects = make(map[string]T)
	}
	return m
}

func (m *shardedMap[T]) get(key string) T {
	s := &m.shards[maphash.String(m.seed, key)%uint64(len(m.shards))]
	s.Lock()
	object, ok := s.objects[key]
	if !ok {
		object = m.create()
		s.objects[key] = object
	}
	s.Unlock()
	return object
}

func newRate(l Limit) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(l.Count)/l.Window.Seconds()), int(l.Count))
}

func takeRateSharded(_ *lab.Bench, l Limit) lab.TakeFunc {
	m := newShardedMap(func() *rate.Limiter { return newRate(l) })
	return func(_ context.Context, key string) (bool, error) { return m.get(key).Allow(), nil }
}

func takeRateSyncMap(_ *lab.Bench, l Limit) lab.TakeFunc {
	var m sync.Map
	return func(_ context.Context, key string) (bool, error) {
		object, ok := m.Load(key)
		if !ok {
			object, _ = m.LoadOrStore(key, newRate(l))
		}
		return object.(*rate.Limiter).Allow(), nil
	}
}

func takeJuju(_ *lab.Bench, l Limit) lab.TakeFunc {
	m := newShardedMap(func() *juju.Bucket { return juju.NewBucket(l.Window/time.Duration(l.Count), l.Count) })
	return func(_ context.Context, key string) (bool, error) { return m.get(key).TakeAvailable(1) == 1, nil }
}

func takeSethvargo(b *lab.Bench, l Limit) lab.TakeFunc {
	store := lab.Must(memorystore.New(&memorystore.Config{Tokens: uint64(l.Count), Interval: l.Window}))
	b.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, allowed, err := store.Take(ctx, key)
		return allowed, err
	}
}

// takeSethvargoTwice has two limits, the second for a day. If the second denies, the first has been charged.
func takeSethvargoTwice(b *lab.Bench, l Limit) lab.TakeFunc {
	first, second := takeSethvargo(b, l), takeSethvargo(b, Limit{Count: l.Count, Window: 24 * time.Hour})
	return func(ctx context.Context, key string) (bool, error) {
		if allowed, err := first(ctx, key); err != nil || !allowed {
			return false, err
		}
		return second(ctx, key)
	}
}

func takeThrottled(_ *lab.Bench, l Limit) lab.TakeFunc {
	limiter := newThrottled(lab.Must(throttledmem.NewCtx(0)), l)
	// Two clients of one key may disturb each other any number of times; giving up is not a decision.
	limiter.SetMaxCASAttemptsLimit(1 << 30)
	return chargeThrottled(limiter, 1)
}

func throttledOnRedis() Contestant {
	c := goRedisPeer("throttled goredisstore", func(c *goredis.Client, l Limit) func(int) lab.TakeFunc {
		limiter := newThrottled(lab.Must(throttledredis.NewCtx(c, "throttled:")), l)
		return func(cost int) lab.TakeFunc { return chargeThrottled(limiter, cost) }
	})
	c.MayGiveUp = true
	return c
}

func newThrottled(store throttled.GCRAStoreCtx, l Limit) *throttled.GCRARateLimiterCtx {
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(l.Count), l.Window), MaxBurst: int(l.Count) - 1}
	return lab.Must(throttled.NewGCRARateLimiterCtx(store, quota))
}

func chargeThrottled(limiter *throttled.GCRARateLimiterCtx, cost int) lab.TakeFunc {
	return func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, cost)
		return !limited, err
	}
}

func takeUlule(store ulule.Store, l Limit) lab.TakeFunc {
	limiter := ulule.New(store, ulule.Rate{Limit: l.Count, Period: l.Window})
	return func(ctx context.Context, key string) (bool, error) {
		c, err := limiter.Get(ctx, key)
		return !c.Reached, err
	}
}

func takeRedisRate(client *goredis.Client, l Limit) func(int) lab.TakeFunc {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: int(l.Count), Burst: int(l.Count), Period: l.Window}
	return func(cost int) lab.TakeFunc {
		return func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.AllowN(ctx, key, limit, cost)
			return err == nil && r.Allowed == cost, err
		}
	}
}

var byHand = []Contestant{
	{Name: FourTrips, Role: report.Peer, Open: withRueidis(fourTrips)},
	{Name: "INCRBY + EXPIRE, not conditional", Role: report.Ceiling, Open: withRueidis(increment)},
	{Name: "EVALSHA of an empty script", Role: report.Ceiling, Open: withRueidis(emptyScript)},
	{Name: "GET", Role: report.Ceiling, Open: withRueidis(get)},
}

// withRueidis connects as our store does.
func withRueidis(limiter func(rueidis.Client, Limit) lab.Limiter) func(*lab.Bench, string, Limit) lab.Limiter {
	return func(b *lab.Bench, addr string, l Limit) lab.Limiter {
		client := lab.Must(rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{addr},
			ConnWriteTimeout:  timeout,
			ForceSingleClient: true,
			DisableRetry:      true,
			DisableCache:      true,
			ClientSetInfo:     rueidis.DisableClientSetInfo,
		}))
		b.Cleanup(client.Close)
		return limiter(client, l)
	}
}

var serial atomic.Uint64

// NewMember returns a unique name for one request in a log.
func NewMember() string { return fmt.Sprintf("%d-%d", time.Now().UnixMicro(), serial.Add(1)) }

// FourSteps keeps a log in a sorted set, one member per request, scored by its instant in microseconds: it cleans,
// adds, expires and counts, one after the other. send waits for one command's integer reply.
func FourSteps(c rueidis.CoreClient, send func(rueidis.Completed) (int64, error), key, member string, l Limit) (allowed bool, err error) {
	now := time.Now()
	n := int64(0)
	for _, command := range []rueidis.Completed{
		c.B().Zremrangebyscore().Key(key).Min("-inf").Max(fmt.Sprint(now.Add(-l.Window).UnixMicro())).Build(),
		c.B().Arbitrary("ZADD").Keys(key).Args(fmt.Sprint(now.UnixMicro()), member).Build(),
		c.B().Pexpire().Key(key).Milliseconds(l.Window.Milliseconds()).Build(),
		c.B().Zcard().Key(key).Build(),
	} {
		if n, err = send(command); err != nil {
			return false, err
		}
	}
	return n <= l.Count, nil
}

func fourTrips(client rueidis.Client, l Limit) lab.Limiter {
	l.Window = min(l.Window, logWindow)
	return lab.Shared(func(ctx context.Context, key string) (bool, error) {
		send := func(c rueidis.Completed) (int64, error) { return client.Do(ctx, c).AsInt64() }
		return FourSteps(client, send, "four:"+key, NewMember(), l)
	})
}

// increment counts in one round trip, but charges even if the limit is reached.
func increment(client rueidis.Client, l Limit) lab.Limiter {
	seconds := int64(l.Window.Seconds())
	return lab.Shared(func(ctx context.Context, key string) (bool, error) {
		key = "incr:" + key
		replies := client.DoMulti(ctx,
			client.B().Incrby().Key(key).Increment(1).Build(),
			client.B().Expire().Key(key).Seconds(seconds).Nx().Build())
		n, err := replies[0].AsInt64()
		if err == nil {
			err = replies[1].Error()
		}
		return n <= l.Count, err
	})
}

func emptyScript(client rueidis.Client, _ Limit) lab.Limiter {
	script := rueidis.NewLuaScript("return 1")
	return lab.Shared(func(ctx context.Context, key string) (bool, error) {
		n, err := script.Exec(ctx, client, []string{"empty:" + key}, nil).AsInt64()
		return n == 1, err
	})
}

func get(client rueidis.Client, _ Limit) lab.Limiter {
	open := lab.Shared(func(ctx context.Context, key string) (bool, error) {
		_, err := client.Do(ctx, client.B().Get().Key("get:"+key).Build()).ToString()
		return true, err
	})
	open.Warm = func(ctx context.Context, key string) (bool, error) {
		return true, client.Do(ctx, client.B().Set().Key("get:"+key).Value("0123456789abcdef").Build()).Error()
	}
	return open
}

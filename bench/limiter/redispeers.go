package limiter

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

func goRedisPeers() []Contestant {
	return []Contestant{
		{Name: RedisRate, Role: report.Peer, Open: openRedisRate},
		{Name: "throttled goredisstore", Role: report.Peer, MayGiveUp: true, Open: openThrottledRedis},
		{Name: "ulule redis", Role: report.Peer, Open: openUluleRedis},
	}
}

// dialGoRedis connects with the library's defaults, except that it never retries: a charge that is sent again
// counts again.
func dialGoRedis(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, MaxRetries: -1,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
	})
}

func openRedisRate(_ context.Context, addr string, l Limit) (lab.Limiter, error) {
	client := dialGoRedis(addr)
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: int(l.Count), Burst: int(l.Count), Period: l.Window}
	return simple{
		take: func(ctx context.Context, key string) (bool, error) {
			r, err := limiter.Allow(ctx, key, limit)
			return err == nil && r.Allowed == 1, err
		},
		warm: func(ctx context.Context, key string) error {
			_, err := limiter.AllowN(ctx, key, limit, int(l.lasting()))
			return err
		},
		close: client.Close,
	}, nil
}

func openThrottledRedis(_ context.Context, addr string, l Limit) (lab.Limiter, error) {
	client := dialGoRedis(addr)
	store, err := throttledredis.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	limiter, take, err := throttledOn(store, l)
	return simple{
		take: take,
		warm: func(ctx context.Context, key string) error {
			_, _, err := limiter.RateLimitCtx(ctx, key, int(l.lasting()))
			return err
		},
		close: client.Close,
	}, err
}

func openUluleRedis(_ context.Context, addr string, l Limit) (lab.Limiter, error) {
	client := dialGoRedis(addr)
	store, err := ululeredis.NewStore(client)
	if err != nil {
		return nil, err
	}
	return simple{take: ululeOn(store, l), close: client.Close}, nil
}

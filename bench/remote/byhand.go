package remote

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/bench/race"
	"github.com/penstock-io/penstock/bench/report"
)

func byHand() []Contestant {
	return []Contestant{
		{Name: FourTrips, Role: report.Peer, Open: openFourTrips},
		{Name: "INCRBY + EXPIRE, not conditional", Role: report.Ceiling, Open: openIncrement},
		{Name: "EVALSHA of an empty script", Role: report.Ceiling, Open: openEmptyScript},
		{Name: "GET", Role: report.Ceiling, Open: openGet},
	}
}

// dialRueidis connects as our store does.
func dialRueidis(addr string) (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		ConnWriteTimeout:  timeout,
		ForceSingleClient: true,
		DisableRetry:      true,
		DisableCache:      true,
		ClientSetInfo:     rueidis.DisableClientSetInfo,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to Redis at %s: %w", addr, err)
	}
	return client, nil
}

// openFourTrips keeps a log in a sorted set and cleans, adds, expires and counts, one after the other.
func openFourTrips(_ context.Context, addr string, l Limit) (Limiter, error) {
	client, err := dialRueidis(addr)
	if err != nil {
		return nil, err
	}
	limit := race.Limit{Calls: int(l.Count), Window: min(l.Window, logWindow)}
	return sharedLimiter{
		take: func(ctx context.Context, key string) (bool, error) {
			return race.FourSteps(ctx, client, "four:"+key, limit)
		},
		close: client.Close,
	}, nil
}

// openIncrement counts in one round trip, but charges even if the limit is reached.
func openIncrement(_ context.Context, addr string, l Limit) (Limiter, error) {
	client, err := dialRueidis(addr)
	if err != nil {
		return nil, err
	}
	seconds := int64(l.Window.Seconds())
	return sharedLimiter{
		take: func(ctx context.Context, key string) (bool, error) {
			key = "incr:" + key
			replies := client.DoMulti(ctx,
				client.B().Incrby().Key(key).Increment(1).Build(),
				client.B().Expire().Key(key).Seconds(seconds).Nx().Build())
			n, err := replies[0].AsInt64()
			if err == nil {
				err = replies[1].Error()
			}
			return n <= l.Count, err
		},
		close: client.Close,
	}, nil
}

func openEmptyScript(ctx context.Context, addr string, _ Limit) (Limiter, error) {
	client, err := dialRueidis(addr)
	if err != nil {
		return nil, err
	}
	sha, err := client.Do(ctx, client.B().ScriptLoad().Script("return 1").Build()).ToString()
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("load the empty script: %w", err)
	}
	return sharedLimiter{
		take: func(ctx context.Context, key string) (bool, error) {
			n, err := client.Do(ctx, client.B().Evalsha().Sha1(sha).Numkeys(1).Key("empty:"+key).Build()).AsInt64()
			return n == 1, err
		},
		close: client.Close,
	}, nil
}

func openGet(_ context.Context, addr string, _ Limit) (Limiter, error) {
	client, err := dialRueidis(addr)
	if err != nil {
		return nil, err
	}
	return sharedLimiter{
		take: func(ctx context.Context, key string) (bool, error) {
			_, err := client.Do(ctx, client.B().Get().Key("get:"+key).Build()).ToString()
			return true, err
		},
		warm: func(ctx context.Context, key string) error {
			return client.Do(ctx, client.B().Set().Key("get:"+key).Value("0123456789abcdef").Build()).Error()
		},
		close: client.Close,
	}, nil
}

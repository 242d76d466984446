package limiter

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

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

package race

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// The commands of a sliding-window log in a sorted set: one member per request, scored by its instant in
// microseconds.

func clean(c rueidis.Client, key string, w window) rueidis.Completed {
	return c.B().Arbitrary("ZREMRANGEBYSCORE").Keys(key).Args("-inf", w.oldest).Build()
}

func add(c rueidis.Client, key, member string, w window) rueidis.Completed {
	return c.B().Arbitrary("ZADD").Keys(key).Args(w.now, member).Build()
}

func count(c rueidis.Client, key string) rueidis.Completed {
	return c.B().Zcard().Key(key).Build()
}

// countFresh counts without cleaning first, for ways that must not write yet.
func countFresh(c rueidis.Client, key string, w window) rueidis.Completed {
	return c.B().Zcount().Key(key).Min("(" + w.oldest).Max("+inf").Build()
}

func expire(c rueidis.Client, key string, w window) rueidis.Completed {
	return c.B().Arbitrary("PEXPIRE").Keys(key).Args(w.ttl).Build()
}

// tripCounter sends commands for one request and counts how often it waited.
type tripCounter struct {
	client rueidis.CoreClient
	made   int
}

// send waits for one command's integer reply.
func (t *tripCounter) send(ctx context.Context, cmd rueidis.Completed) (int, error) {
	t.made++
	n, err := t.client.Do(ctx, cmd).AsInt64()
	return int(n), err
}

// sendTogether waits once for several commands sent in one write.
func (t *tripCounter) sendTogether(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	t.made++
	results := t.client.DoMulti(ctx, cmds...)
	for i, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("command %d of %d sent together: %w", i+1, len(cmds), err)
		}
	}
	return results, nil
}

var checkThenAdd = Method{
	Name: "check then add",
	What: "ZREMRANGEBYSCORE, ZCARD; below the limit: ZADD + PEXPIRE",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		return decideFunc(func(ctx context.Context, key string) (Answer, error) {
			t := &tripCounter{client: node.Client}
			allowed, err := takeByChecking(ctx, t, node.Client, key, limit)
			return Answer{Allowed: allowed, Trips: t.made}, err
		}), nil
	},
}

// takeByChecking reads, then acts on what it read. That is correct only if no other client acts in between.
func takeByChecking(ctx context.Context, t *tripCounter, c rueidis.Client, key string, limit Limit) (bool, error) {
	w := windowAt(time.Now(), limit.Window)
	if _, err := t.send(ctx, clean(c, key, w)); err != nil {
		return false, fmt.Errorf("clean %q: %w", key, err)
	}
	n, err := t.send(ctx, count(c, key))
	if err != nil {
		return false, fmt.Errorf("count %q: %w", key, err)
	}
	if n >= limit.Calls {
		return false, nil
	}
	if _, err := t.sendTogether(ctx, add(c, key, newMember(), w), expire(c, key, w)); err != nil {
		return false, fmt.Errorf("add to %q: %w", key, err)
	}
	return true, nil
}

var addThenCount = Method{
	Name: "four steps",
	What: "ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD, a trip each; allowed if the count is within the limit",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		return fourSteps(node.Client, limit, newMember), nil
	},
}

// Members made of the request (user, path, body) are the same for a burst of
// identical requests, and a sorted set keeps each member once.
var addThenCountShared = Method{
	Name: "four steps (shared member)",
	What: "the same, the member being a fingerprint of the request, equal for all callers",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		return fourSteps(node.Client, limit, func() string { return "fingerprint" }), nil
	},
}

func fourSteps(c rueidis.Client, limit Limit, member func() string) Decider {
	return decideFunc(func(ctx context.Context, key string) (Answer, error) {
		t := &tripCounter{client: c}
		w := windowAt(time.Now(), limit.Window)
		if _, err := t.send(ctx, clean(c, key, w)); err != nil {
			return Answer{Trips: t.made}, fmt.Errorf("clean %q: %w", key, err)
		}
		if _, err := t.send(ctx, add(c, key, member(), w)); err != nil {
			return Answer{Trips: t.made}, fmt.Errorf("add to %q: %w", key, err)
		}
		if _, err := t.send(ctx, expire(c, key, w)); err != nil {
			return Answer{Trips: t.made}, fmt.Errorf("expire %q: %w", key, err)
		}
		n, err := t.send(ctx, count(c, key))
		if err != nil {
			return Answer{Trips: t.made}, fmt.Errorf("count %q: %w", key, err)
		}
		return Answer{Allowed: n <= limit.Calls, Trips: t.made}, nil
	})
}

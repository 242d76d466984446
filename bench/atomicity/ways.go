package atomicity

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/storage"
)

// A way is one way of deciding requests against a limit kept in Redis.
type way struct {
	name string // a row of the table
	what string // the commands it sends and when it allows

	take func(ctx context.Context, t *request, key string) (allowed bool, err error)
}

func (w way) role() report.Role {
	if w.name == "Penstock" {
		return report.Ours
	}
	return report.Peer
}

// ways are the techniques people use, in the order they tend to try them, and Penstock's own.
var ways = []way{
	{"check then add", "ZREMRANGEBYSCORE, ZCARD; below the limit: ZADD + PEXPIRE", checkThenAdd},
	{"four steps", "ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD, a trip each; allowed if the count is within the limit",
		func(ctx context.Context, t *request, key string) (bool, error) {
			return fourSteps(ctx, t, key, limiter.NewMember())
		}},
	// Members made of the request are the same for a burst of identical requests, and a sorted set keeps each once.
	{"four steps (shared member)", "the same, the member being a fingerprint of the request, equal for all callers",
		func(ctx context.Context, t *request, key string) (bool, error) {
			return fourSteps(ctx, t, key, "fingerprint")
		}},
	{"MULTI/EXEC", "ZREMRANGEBYSCORE, ZADD, ZCARD, PEXPIRE in one transaction; allowed if the count is within the limit", transaction},
	{"lock", "SET NX PX, spinning with back-off; check then add; release by a script that compares the token", locked},
	{"WATCH + retry", "WATCH + ZCOUNT, then MULTI/EXEC (or UNWATCH); retried when EXEC is refused", optimistic},
	{"EVAL", "check and add in one script, its text sent with every call", scriptText},
	{"EVALSHA", "the same script, named by its hash", scriptHash},
	{"Penstock", "EVALSHA of a general script; callers of one node that would wait travel together", ownStore},
}

// A request sends the commands of one request and counts how often it waits for Redis.
type request struct {
	node          *node
	client        rueidis.CoreClient
	made, retries int
}

// send waits for one command's integer reply.
func (t *request) send(ctx context.Context, cmd rueidis.Completed) (int64, error) {
	t.made++
	return t.client.Do(ctx, cmd).AsInt64()
}

// sendTogether waits once for several commands sent in one write.
func (t *request) sendTogether(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	t.made++
	results := t.client.DoMulti(ctx, cmds...)
	for i, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("command %d of %d sent together: %w", i+1, len(cmds), err)
		}
	}
	return results, nil
}

// logCommands are the commands of a sliding-window log in a sorted set: one member per request, scored by its instant
// in microseconds, by the client's clock.
type logCommands struct{ clean, count, countFresh, add, expire rueidis.Completed }

func commandsOf(c rueidis.CoreClient, key string) logCommands {
	now := time.Now()
	oldest := fmt.Sprint(now.Add(-limit.Window).UnixMicro())
	return logCommands{
		clean:      c.B().Zremrangebyscore().Key(key).Min("-inf").Max(oldest).Build(),
		count:      c.B().Zcard().Key(key).Build(),
		countFresh: c.B().Zcount().Key(key).Min("(" + oldest).Max("+inf").Build(), // without cleaning first
		add:        c.B().Arbitrary("ZADD").Keys(key).Args(fmt.Sprint(now.UnixMicro()), limiter.NewMember()).Build(),
		expire:     c.B().Pexpire().Key(key).Milliseconds(limit.Window.Milliseconds()).Build(),
	}
}

// checkThenAdd reads, then acts on what it read. That is correct only if no other client acts in between.
func checkThenAdd(ctx context.Context, t *request, key string) (bool, error) {
	c := commandsOf(t.client, key)
	if _, err := t.send(ctx, c.clean); err != nil {
		return false, err
	}
	if n, err := t.send(ctx, c.count); err != nil || n >= limit.Count {
		return false, err
	}
	_, err := t.sendTogether(ctx, c.add, c.expire)
	return err == nil, err
}

func fourSteps(ctx context.Context, t *request, key, member string) (bool, error) {
	return limiter.FourSteps(t.client, func(c rueidis.Completed) (int64, error) { return t.send(ctx, c) }, key, member, limit)
}

func transaction(ctx context.Context, t *request, key string) (bool, error) {
	c := commandsOf(t.client, key)
	results, err := t.sendTogether(ctx, t.client.B().Multi().Build(), c.clean, c.add, c.count, c.expire, t.client.B().Exec().Build())
	if err != nil {
		return false, err
	}
	replies, err := results[len(results)-1].AsIntSlice()
	if err != nil || len(replies) != 4 {
		return false, fmt.Errorf("EXEC: %d replies: %w", len(replies), err)
	}
	return replies[2] <= limit.Count, nil
}

//go:embed unlock.lua
var unlockScript string

const (
	lockLife = 10 * time.Second // frees the lock of a holder that died; far longer than a holder needs here
	// A waiter sleeps a random part of a pause that doubles: short enough for a fast network, long enough not to
	// overload the server.
	firstPause, longestPause = 500 * time.Microsecond, 16 * time.Millisecond
)

func locked(ctx context.Context, t *request, key string) (allowed bool, err error) {
	lock, token := "{"+key+"}:lock", limiter.NewMember()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		results, err := t.sendTogether(ctx, t.client.B().Set().Key(lock).Value(token).Nx().Px(lockLife).Build())
		if err != nil {
			return false, err
		}
		if !rueidis.IsRedisNil(results[0].Error()) {
			break
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		t.retries++
	}
	allowed, err = checkThenAdd(ctx, t, key)
	unlock := t.client.B().Eval().Script(unlockScript).Numkeys(1).Key(lock).Arg(token).Build()
	_, failed := t.send(context.WithoutCancel(ctx), unlock) // others wait for it
	return allowed, errors.Join(err, failed)
}

// optimistic is implemented in its best form: WATCH and the count are sent together, so an attempt is two trips. WATCH
// guards a connection, so clients cannot share one.
func optimistic(ctx context.Context, t *request, key string) (allowed bool, err error) {
	conn, giveBack := t.node.client.Dedicate()
	defer giveBack()
	t.client = conn
	for ; ctx.Err() == nil; t.retries++ {
		c := commandsOf(conn, key)
		seen, err := t.sendTogether(ctx, conn.B().Watch().Key(key).Build(), c.countFresh)
		if err != nil {
			return false, err
		}
		if n, err := seen[1].AsInt64(); err != nil || n >= limit.Count {
			_, failed := t.sendTogether(ctx, conn.B().Unwatch().Build())
			return false, errors.Join(err, failed)
		}
		results, err := t.sendTogether(ctx, conn.B().Multi().Build(), c.clean, c.add, c.expire, conn.B().Exec().Build())
		if err != nil || !rueidis.IsRedisNil(results[len(results)-1].Error()) {
			return err == nil, err
		}
	}
	return false, ctx.Err()
}

//go:embed take.lua
var takeScript string

var takeByHash = rueidis.NewLuaScript(takeScript)

func takeArgs() []string {
	return []string{fmt.Sprint(limit.Count), fmt.Sprint(limit.Window.Microseconds()), limiter.NewMember()}
}

func scriptText(ctx context.Context, t *request, key string) (bool, error) {
	n, err := t.send(ctx, t.client.B().Eval().Script(takeScript).Numkeys(1).Key(key).Arg(takeArgs()...).Build())
	return n == 1, err
}

// scriptHash sends the text only to a server that does not have the script.
func scriptHash(ctx context.Context, t *request, key string) (bool, error) {
	t.made++
	n, err := takeByHash.Exec(ctx, t.node.client, []string{key}, takeArgs()).AsInt64()
	return n == 1, err
}

var hasher = storage.NewHasher("")

// ownStore is Penstock's store, with the same kind of limit as the other ways, an exact log.
func ownStore(ctx context.Context, t *request, key string) (bool, error) {
	meter := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: limit.Count, Window: limit.Window}.MustCompile()
	t.made++
	var out storage.Outcome
	err := t.node.store.Take(ctx, &storage.Ticket{Groups: []storage.Group{{
		Subject: hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key}),
		Charges: []algorithm.Charge{{Meter: meter, Cost: 1}},
	}}}, &out)
	return out.Allowed, err
}

package race

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A Limit is how many requests all clients together may make in any window.
type Limit struct {
	Calls  int
	Window time.Duration
}

// A Way is one way of deciding requests against a limit kept in Redis.
type Way struct {
	Name string // a row of the table, an entry of a legend
	What string // one line: the commands it sends and when it allows

	take func(ctx context.Context, t *trips, key string, l Limit) (allowed bool, err error)
}

// Ways returns the techniques people use, in the order they tend to try them, and Penstock's own.
func Ways() []Way {
	return []Way{
		{"check then add", "ZREMRANGEBYSCORE, ZCARD; below the limit: ZADD + PEXPIRE", checkThenAdd},
		{"four steps", "ZREMRANGEBYSCORE, ZADD, PEXPIRE, ZCARD, a trip each; allowed if the count is within the limit",
			func(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
				return fourSteps(ctx, t, key, newMember(), l)
			}},
		// Members made of the request are the same for a burst of identical requests, and a sorted set keeps each once.
		{"four steps (shared member)", "the same, the member being a fingerprint of the request, equal for all callers",
			func(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
				return fourSteps(ctx, t, key, "fingerprint", l)
			}},
		{"MULTI/EXEC", "ZREMRANGEBYSCORE, ZADD, ZCARD, PEXPIRE in one transaction; allowed if the count is within the limit", transaction},
		{"lock", "SET NX PX, spinning with back-off; check then add; release by a script that compares the token", locked},
		{"WATCH + retry", "WATCH + ZCOUNT, then MULTI/EXEC (or UNWATCH); retried when EXEC is refused", optimistic},
		{"EVAL", "check and add in one script, its text sent with every call", scriptText},
		{"EVALSHA", "the same script, named by its hash", scriptHash},
		{"Penstock", "EVALSHA of a general script; callers of one node that would wait travel together", ownStore},
	}
}

// trips sends the commands of one request and counts how often it waits for Redis.
type trips struct {
	node          *node
	client        rueidis.CoreClient
	made, retries int
}

// send waits for one command's integer reply.
func (t *trips) send(ctx context.Context, cmd rueidis.Completed) (int, error) {
	t.made++
	n, err := t.client.Do(ctx, cmd).AsInt64()
	return int(n), err
}

// sendTogether waits once for several commands sent in one write.
func (t *trips) sendTogether(ctx context.Context, cmds ...rueidis.Completed) ([]rueidis.RedisResult, error) {
	t.made++
	results := t.client.DoMulti(ctx, cmds...)
	for i, r := range results {
		if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("command %d of %d sent together: %w", i+1, len(cmds), err)
		}
	}
	return results, nil
}

var memberSerial atomic.Uint64

// newMember returns a unique name for one request in the log.
func newMember() string { return fmt.Sprintf("%d-%d", time.Now().UnixMicro(), memberSerial.Add(1)) }

// logCommands are the commands of a sliding-window log in a sorted set: one member per request, scored by its instant
// in microseconds, by the client's clock.
type logCommands struct {
	clean, count, countFresh, expire rueidis.Completed
	add                              func(member string) rueidis.Completed
}

func commandsOf(c rueidis.CoreClient, key string, l Limit) logCommands {
	now := time.Now()
	oldest := fmt.Sprint(now.Add(-l.Window).UnixMicro())
	return logCommands{
		clean:      c.B().Arbitrary("ZREMRANGEBYSCORE").Keys(key).Args("-inf", oldest).Build(),
		count:      c.B().Zcard().Key(key).Build(),
		countFresh: c.B().Zcount().Key(key).Min("(" + oldest).Max("+inf").Build(), // without cleaning first
		expire:     c.B().Arbitrary("PEXPIRE").Keys(key).Args(fmt.Sprint(l.Window.Milliseconds())).Build(),
		add: func(member string) rueidis.Completed {
			return c.B().Arbitrary("ZADD").Keys(key).Args(fmt.Sprint(now.UnixMicro()), member).Build()
		},
	}
}

// checkThenAdd reads, then acts on what it read. That is correct only if no other client acts in between.
func checkThenAdd(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
	c := commandsOf(t.client, key, l)
	if _, err := t.send(ctx, c.clean); err != nil {
		return false, err
	}
	if n, err := t.send(ctx, c.count); err != nil || n >= l.Calls {
		return false, err
	}
	_, err := t.sendTogether(ctx, c.add(newMember()), c.expire)
	return err == nil, err
}

// FourSteps cleans, adds, expires and counts, one after the other.
func FourSteps(ctx context.Context, client rueidis.Client, key string, l Limit) (bool, error) {
	return fourSteps(ctx, &trips{client: client}, key, newMember(), l)
}

func fourSteps(ctx context.Context, t *trips, key, member string, l Limit) (bool, error) {
	c := commandsOf(t.client, key, l)
	n := 0
	for _, command := range []rueidis.Completed{c.clean, c.add(member), c.expire, c.count} {
		var err error
		if n, err = t.send(ctx, command); err != nil {
			return false, err
		}
	}
	return n <= l.Calls, nil
}

func transaction(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
	c := commandsOf(t.client, key, l)
	results, err := t.sendTogether(ctx, t.client.B().Multi().Build(), c.clean, c.add(newMember()), c.count, c.expire, t.client.B().Exec().Build())
	if err != nil {
		return false, err
	}
	replies, err := results[len(results)-1].AsIntSlice()
	if err != nil || len(replies) != 4 {
		return false, fmt.Errorf("EXEC: %d replies: %w", len(replies), err)
	}
	return int(replies[2]) <= l.Calls, nil
}

//go:embed unlock.lua
var unlockScript string

const (
	lockLife = 10 * time.Second // frees the lock of a holder that died; far longer than a holder needs here
	// A waiter sleeps a random part of a pause that doubles: short enough for a fast network, long enough not to
	// overload the server.
	firstPause, longestPause = 500 * time.Microsecond, 16 * time.Millisecond
)

func locked(ctx context.Context, t *trips, key string, l Limit) (allowed bool, err error) {
	lock, token := "{"+key+"}:lock", newMember()
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
	allowed, err = checkThenAdd(ctx, t, key, l)
	unlock := t.client.B().Eval().Script(unlockScript).Numkeys(1).Key(lock).Arg(token).Build()
	_, failed := t.send(context.WithoutCancel(ctx), unlock) // others wait for it
	return allowed, errors.Join(err, failed)
}

// optimistic is implemented in its best form: WATCH and the count are sent together, so an attempt is two trips. WATCH
// guards a connection, so clients cannot share one.
func optimistic(ctx context.Context, t *trips, key string, l Limit) (allowed bool, err error) {
	conn, giveBack := t.node.client.Dedicate()
	defer giveBack()
	t.client = conn
	for ; ctx.Err() == nil; t.retries++ {
		c := commandsOf(conn, key, l)
		seen, err := t.sendTogether(ctx, conn.B().Watch().Key(key).Build(), c.countFresh)
		if err != nil {
			return false, err
		}
		if n, err := seen[1].AsInt64(); err != nil || int(n) >= l.Calls {
			_, failed := t.sendTogether(ctx, conn.B().Unwatch().Build())
			return false, errors.Join(err, failed)
		}
		results, err := t.sendTogether(ctx, conn.B().Multi().Build(), c.clean, c.add(newMember()), c.expire, conn.B().Exec().Build())
		if err != nil || !rueidis.IsRedisNil(results[len(results)-1].Error()) {
			return err == nil, err
		}
	}
	return false, ctx.Err()
}

//go:embed take.lua
var takeScript string

var takeByHash = rueidis.NewLuaScript(takeScript)

func takeArgs(l Limit) []string {
	return []string{fmt.Sprint(l.Calls), fmt.Sprint(l.Window.Microseconds()), newMember()}
}

func scriptText(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
	n, err := t.send(ctx, t.client.B().Eval().Script(takeScript).Numkeys(1).Key(key).Arg(takeArgs(l)...).Build())
	return n == 1, err
}

// scriptHash sends the text only to a server that does not have the script.
func scriptHash(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
	t.made++
	n, err := takeByHash.Exec(ctx, t.node.client, []string{key}, takeArgs(l)).AsInt64()
	return n == 1, err
}

var hasher = storage.NewHasher("")

// ownStore is Penstock's store, with the same kind of limit as the other ways, an exact log.
func ownStore(ctx context.Context, t *trips, key string, l Limit) (bool, error) {
	meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: int64(l.Calls), Window: l.Window}.Compile()
	if err != nil {
		return false, err
	}
	t.made++
	var out storage.Outcome
	err = t.node.store.Take(ctx, &storage.Ticket{Groups: []storage.Group{{
		Subject: hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key}),
		Charges: []algorithm.Charge{{Meter: meter, Cost: 1}},
	}}}, &out)
	return out.Allowed, err
}

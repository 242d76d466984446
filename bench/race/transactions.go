package race

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

var transaction = Method{
	Name: "MULTI/EXEC",
	What: "ZREMRANGEBYSCORE, ZADD, ZCARD, PEXPIRE in one transaction; allowed if the count is within the limit",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		c := node.Client
		return decideFunc(func(ctx context.Context, key string) (Answer, error) {
			t := &tripCounter{client: c}
			w := windowAt(time.Now(), limit.Window)
			results, err := t.sendTogether(ctx,
				c.B().Multi().Build(),
				clean(c, key, w),
				add(c, key, newMember(), w),
				count(c, key),
				expire(c, key, w),
				c.B().Exec().Build())
			if err != nil {
				return Answer{Trips: t.made}, fmt.Errorf("transaction on %q: %w", key, err)
			}
			n, err := replyOf(results[len(results)-1], 2)
			if err != nil {
				return Answer{Trips: t.made}, fmt.Errorf("transaction on %q: %w", key, err)
			}
			return Answer{Allowed: n <= limit.Calls, Trips: t.made}, nil
		}), nil
	},
}

// replyOf returns the i-th integer of an EXEC reply.
func replyOf(exec rueidis.RedisResult, i int) (int, error) {
	replies, err := exec.ToArray()
	if err != nil {
		return 0, fmt.Errorf("exec: %w", err)
	}
	if i >= len(replies) {
		return 0, fmt.Errorf("exec: want a reply to command %d, got %d replies", i+1, len(replies))
	}
	n, err := replies[i].AsInt64()
	return int(n), err
}

// optimistic is implemented in its best form: WATCH and the count are sent together, so an attempt is two trips,
// and connections stay dedicated for the whole campaign.
var optimistic = Method{
	Name: "WATCH + retry",
	What: "WATCH + ZCOUNT, then MULTI/EXEC (or UNWATCH); retried when EXEC is refused",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		return &watcher{client: node.Client, limit: limit}, nil
	},
}

// watcher lends each request its own connection: WATCH guards a connection, so clients cannot share one.
type watcher struct {
	client rueidis.Client
	limit  Limit

	mu   sync.Mutex
	idle []borrowedConn
	all  []borrowedConn
}

type borrowedConn struct {
	conn   rueidis.DedicatedClient
	giveUp func()
}

func (w *watcher) borrow() borrowedConn {
	w.mu.Lock()
	if last := len(w.idle) - 1; last >= 0 {
		defer w.mu.Unlock()
		l := w.idle[last]
		w.idle = w.idle[:last]
		return l
	}
	w.mu.Unlock()
	conn, giveUp := w.client.Dedicate() // may dial: not under the lock
	l := borrowedConn{conn, giveUp}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, l)
	return l
}

func (w *watcher) giveBack(l borrowedConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, l)
}

func (w *watcher) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.all {
		l.giveUp()
	}
	w.idle, w.all = nil, nil
}

func (w *watcher) Decide(ctx context.Context, key string) (Answer, error) {
	l := w.borrow()
	t := &tripCounter{client: l.conn}
	for retries := 0; ; retries++ {
		if err := ctx.Err(); err != nil {
			return Answer{Trips: t.made, Retries: retries}, fmt.Errorf("optimistic take of %q after %d retries: %w", key, retries, err)
		}
		allowed, refused, err := w.attempt(ctx, t, key)
		if err != nil { // the connection may still be watching, so it is not reused
			return Answer{Trips: t.made, Retries: retries}, err
		}
		if !refused {
			w.giveBack(l)
			return Answer{Allowed: allowed, Trips: t.made, Retries: retries}, nil
		}
	}
}

// attempt is refused if the key changed between the read and the write.
func (w *watcher) attempt(ctx context.Context, t *tripCounter, key string) (allowed, refused bool, err error) {
	c, now := w.client, windowAt(time.Now(), w.limit.Window)
	seen, err := t.sendTogether(ctx, c.B().Watch().Key(key).Build(), countFresh(c, key, now))
	if err != nil {
		return false, false, fmt.Errorf("watch %q: %w", key, err)
	}
	n, err := seen[1].AsInt64()
	if err != nil {
		return false, false, fmt.Errorf("count %q: %w", key, err)
	}
	if int(n) >= w.limit.Calls {
		_, err := t.sendTogether(ctx, c.B().Unwatch().Build())
		return false, false, err
	}
	results, err := t.sendTogether(ctx,
		c.B().Multi().Build(),
		clean(c, key, now),
		add(c, key, newMember(), now),
		expire(c, key, now),
		c.B().Exec().Build())
	if err != nil {
		return false, false, fmt.Errorf("transaction on %q: %w", key, err)
	}
	refused = rueidis.IsRedisNil(results[len(results)-1].Error())
	return !refused, refused, nil
}

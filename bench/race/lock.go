package race

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"
)

//go:embed unlock.lua
var unlockScript string

const (
	// lockLife frees the lock of a holder that died. It is far longer than a holder needs here, so that no holder
	// loses its lock.
	lockLife = 10 * time.Second
	// A waiter sleeps a random part of a pause that doubles from the first to the longest: short enough for a fast
	// network, long enough not to overload the server.
	firstPause   = 500 * time.Microsecond
	longestPause = 16 * time.Millisecond
)

var locked = Method{
	Name: "lock",
	What: "SET NX PX, spinning with back-off; check then add; release by a script that compares the token",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		c := node.Client
		return decideFunc(func(ctx context.Context, key string) (Answer, error) {
			t := &tripCounter{client: c}
			lock, token := "{"+key+"}:lock", newMember()
			retries, err := acquire(ctx, t, c, lock, token)
			if err != nil {
				return Answer{Trips: t.made, Retries: retries}, err
			}
			allowed, err := takeByChecking(ctx, t, c, key, limit)
			err = errors.Join(err, release(ctx, t, c, lock, token))
			return Answer{Allowed: allowed, Trips: t.made, Retries: retries}, err
		}), nil
	},
}

// acquire retries until it holds the lock or ctx ends.
func acquire(ctx context.Context, t *tripCounter, c rueidis.Client, lock, token string) (retries int, err error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		results, err := t.sendTogether(ctx, c.B().Set().Key(lock).Value(token).Nx().Px(lockLife).Build())
		if err != nil {
			return retries, fmt.Errorf("acquire %q: %w", lock, err)
		}
		if !rueidis.IsRedisNil(results[0].Error()) {
			return retries, nil
		}
		select {
		case <-ctx.Done():
			return retries, fmt.Errorf("acquire %q after %d retries: %w", lock, retries, ctx.Err())
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}
		retries++
	}
}

// release releases the lock even if the context has ended, because others wait for it.
func release(ctx context.Context, t *tripCounter, c rueidis.Client, lock, token string) error {
	unlock := c.B().Eval().Script(unlockScript).Numkeys(1).Key(lock).Arg(token).Build()
	if _, err := t.send(context.WithoutCancel(ctx), unlock); err != nil {
		return fmt.Errorf("release %q: %w", lock, err)
	}
	return nil
}

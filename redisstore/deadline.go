package redisstore

import (
	"context"
	"time"
)

// brief is a timeout so short that a run need not end sooner because its caller is gone.
const brief = 50 * time.Millisecond

// An until is a context with a deadline and no timer, for the client, which puts deadlines on its
// connections itself.
type until struct {
	context.Context
	at time.Time
}

func (u *until) Deadline() (time.Time, bool) { return u.at, true }

// within returns a context for the run of this call alone: its caller's deadline or the store's,
// whichever is sooner.
func (c *call) within(ctx context.Context, timeout time.Duration) context.Context {
	c.until = until{context.Background(), c.since.Add(timeout)}
	if at, ok := ctx.Deadline(); ok && at.Before(c.until.at) {
		c.until.at = at
	}
	return &c.until
}

// wait waits for what becomes of the call, as long as its caller and the store's timeout let it.
func (c *call) wait(ctx context.Context, timeout time.Duration) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	left := timeout - time.Since(c.since)
	if c.alarm == nil {
		c.alarm = time.NewTimer(left)
	} else {
		c.alarm.Reset(left)
	}
	defer c.alarm.Stop()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.alarm.C:
		return context.DeadlineExceeded
	}
}

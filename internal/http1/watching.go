package http1

import (
	"context"
	"sync"
	"time"
)

// watching interrupts a clientConn when the context of its request ends. It begins with that only after watchAfter,
// unless the context has a deadline: most responses have arrived by then, and to wait for a context costs more than to
// stop a timer.
type watching struct {
	mu          sync.Mutex
	ctx         context.Context // nil: no request
	cancelled   func() bool     // ends the wait for the context; false if it has ended; nil: it has not begun
	interrupted bool            // for good: the connection is not used again
	timer       *time.Timer
}

func (c *clientConn) watch(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	c.mu.Unlock()
	if _, ok := ctx.Deadline(); ok {
		c.await()
	} else if c.timer == nil {
		c.timer = time.AfterFunc(watchAfter, c.await)
	} else {
		c.timer.Reset(watchAfter)
	}
}

// await begins to wait for the context. The timer of a request that has ended may call it, too.
func (c *clientConn) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil && c.cancelled == nil {
		c.cancelled = context.AfterFunc(c.ctx, c.interrupt)
	}
}

func (c *clientConn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	c.SetDeadline(longAgo)
}

// unwatch ends the wait for the context. It returns false if the connection is or will be interrupted.
func (c *clientConn) unwatch() bool {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Lock()
	cancelled := c.cancelled
	c.ctx, c.cancelled = nil, nil
	c.mu.Unlock()
	return cancelled == nil || cancelled()
}

package http1

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// A requestContext is the context of a request. It ends when the request ends, when its parent does, or when the
// client disconnects. Most denied requests are answered without waiting for anything, so the context looks out for
// that only from the first call of Done on.
type requestContext struct {
	parent context.Context
	conn   *conn

	mu      sync.Mutex
	ended   bool
	watched context.Context // nil before the first call of Done
	cancel  context.CancelFunc
}

// Done returns the channel of a context that is also returned by Value, so that package context can attach derived
// contexts to it without a goroutine for each.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		c.watched, c.cancel = context.WithCancel(c.parent)
		if c.ended {
			c.cancel()
		} else {
			c.conn.watch(c.cancel)
		}
	}
	return c.watched.Done()
}

func (c *requestContext) current() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched != nil {
		return c.watched
	}
	return c.parent
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

func (c *requestContext) Err() error {
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if err := c.current().Err(); err != nil || !ended {
		return err
	}
	return context.Canceled
}

// Value implements context.Context.
func (c *requestContext) Value(key any) any {
	if key == http.LocalAddrContextKey {
		return c.conn.LocalAddr()
	}
	return c.current().Value(key)
}

// end ends the context, after the handler has returned.
func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// isWatched reports whether Done was called.
func (c *requestContext) isWatched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched != nil
}

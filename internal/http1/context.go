package http1

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// A requestContext is the context of a request. It ends when the request ends, when its parent does, or when the
// client disconnects. Most denied requests are answered without waiting for anything, so the context looks out for
// that only from the first call of Done on, and a little later than that.
type requestContext struct {
	parent context.Context
	conn   *conn

	mu      sync.Mutex
	ended   bool
	watched context.Context // nil before the first call of Done
	cancel  context.CancelFunc
	timer   *time.Timer // starts to look out; nil: it has begun, or will not
}

// watchAfter is how long a request waits before it looks out for a disconnect. Most have ended by then: it costs more
// than an ordinary response.
const watchAfter = 10 * time.Millisecond

// Done returns the channel of a context that is also returned by Value, so that package context can attach derived
// contexts to it without a goroutine for each.
func (c *requestContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watched == nil {
		c.watched, c.cancel = context.WithCancel(c.parent)
		switch after := c.conn.server.watchAfter; {
		case c.ended:
			c.cancel()
		case after > 0:
			c.timer = time.AfterFunc(after, c.watch)
		default:
			c.conn.watch(c.cancel)
		}
	}
	return c.watched.Done()
}

// watch looks out for a disconnect, unless the request has ended.
func (c *requestContext) watch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.conn.watch(c.cancel)
	}
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
	if c.timer != nil {
		c.timer.Stop()
	}
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

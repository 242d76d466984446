package connlimit

import (
	"cmp"
	"context"
	"net"
	"net/http"
)

// Admitted must be called for every request that is not a health check. It returns true unless the connection is on
// the reserve of its listener and there is no room for it.
func Admitted(of net.Conn) bool {
	c := inner(of)
	if c == nil || c.admitted.Load() {
		return true
	}
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.admitted.Load() || !c.closed && c.listener.admit(c)
}

// await waits until there is room for a connection on the reserve. It returns false if the connection is closed
// before that, or if the client has used up its share.
func (c *conn) await(ctx context.Context) bool {
	if wake := c.enqueue(); wake != nil {
		select {
		case <-wake:
		case <-ctx.Done():
		}
	}
	return c.admitted.Load()
}

// enqueue returns the channel to wait for, or nil if there is nothing to wait for.
func (c *conn) enqueue() <-chan struct{} {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.admitted.Load() || c.closed || l.admit(c) || l.hasShare(c) {
		return nil
	}
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return c.wake
}

// park puts a connection on the reserve, and closes another one there if the reserve is full.
func (l *Listener) park(c *conn) {
	if l.reserve.Len() >= l.options.Reserve {
		l.drop(l.expendable(c.client))
	}
	c.inReserve = l.reserve.PushBack(c)
}

// expendable returns the connection to close for a new one of a client when the reserve is full. A client that keeps
// opening connections pushes out its own rather than the health checks of others.
func (l *Listener) expendable(of *client) *conn {
	var own, greedy *conn
	several := false
	for e := l.reserve.Front(); e != nil; e = e.Next() {
		c := e.Value.(*conn)
		if of != nil && c.client == of {
			several = own != nil
			own = cmp.Or(own, c)
		}
		if l.hasShare(c) {
			greedy = cmp.Or(greedy, c)
		}
	}
	if several {
		return own
	}
	return cmp.Or(greedy, l.reserve.Front().Value.(*conn))
}

// reserveWaits reports whether a request on the reserve waits for room.
func (l *Listener) reserveWaits() bool {
	for e := l.reserve.Front(); e != nil; e = e.Next() {
		if e.Value.(*conn).wake != nil {
			return true
		}
	}
	return false
}

// admitWaiting gives room to connections on the reserve whose requests wait for it.
func (l *Listener) admitWaiting() {
	for e := l.reserve.Front(); e != nil && !l.full(); {
		c := e.Value.(*conn)
		e = e.Next()
		if c.wake != nil {
			l.admit(c)
		}
	}
}

func (c *conn) leaveReserve() {
	if c.inReserve != nil {
		c.listener.reserve.Remove(c.inReserve)
	}
	c.inReserve = nil
}

// endWait ends the wait for room.
func (c *conn) endWait() {
	if c.wake != nil {
		close(c.wake)
	}
	c.wake = nil
}

type connKey struct{}

// Prepare makes a server tell the listener which connections are idle, and hold requests on the reserve, except
// health checks, until there is room.
func (l *Listener) Prepare(s *http.Server, healthCheck func(*http.Request) bool) {
	next := s.Handler
	s.ConnState = l.ConnState
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of, _ := r.Context().Value(connKey{}).(net.Conn)
		c := inner(of)
		switch {
		case c == nil || c.admitted.Load():
		case healthCheck(r):
			w.Header().Set("Connection", "close")
		case !c.await(r.Context()):
			w.Header().Set("Connection", "close")
			w.Header().Set("Retry-After", "1")
			http.Error(w, "too many connections", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

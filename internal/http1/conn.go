package http1

import (
	"context"
	"errors"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/internal/rawconn"
)

// States of a connection.
const (
	fresh   int32 = iota // it has not sent a request yet
	active               // a request is being served
	idle                 // it waits for the next request
	closing              // Shutdown closes it
)

// bufferSize is how long the head of a common request can be. net/http accepts heads of that size always.
const bufferSize = 4 << 10

// A conn is a connection that is being served.
type conn struct {
	rawconn.Socket
	server *Server
	since  time.Time
	remote string
	state  atomic.Int32

	buffer   [bufferSize]byte
	from, to int       // buffer[from:to] was read and is not served
	watcher  *watcher  // nil: the serving goroutine reads
	last     *response // whose memory can be used again; nil: none
	memory   fields    // of the last request, if it can be used again

	now                   time.Time     // when the last response was written; zero: not known
	headUntil             time.Time     // deadline of the current head; zero: none
	readUntil, writeUntil time.Time     // deadlines of the connection, if they are known; zero: none
	writeSlack            time.Duration // by how much writeUntil may differ from what it should be
}

// serve serves requests until the connection ends or is handed over.
func (c *conn) serve() {
	handed := false
	defer func() { // also after runtime.Goexit
		if !handed {
			c.Conn.Close()
			c.server.options.ConnState(c.Conn, http.StateClosed)
		}
		c.server.remove(c)
	}()
	c.remote = c.RemoteAddr().String()
	for {
		n, err := c.readHead()
		if err != nil || !c.activate() {
			return
		}
		r := newRequest(c)
		if n == 0 || !r.parse(string(c.buffer[c.from:c.from+n])) {
			handed = c.handOver()
			return
		}
		c.from += n
		if !c.answer(r) {
			return
		}
		c.rest()
	}
}

// readHead waits for a request. It returns the length of its head, or 0 if what has arrived is not a whole head.
func (c *conn) readHead() (int, error) {
	if c.from == c.to {
		c.from, c.to = 0, 0
		c.awaitHead()
		if c.state.Load() == idle {
			// Under load other connections are served first. The next request is often there afterwards, which
			// saves an attempt to read, waiting for the poller and waking up.
			runtime.Gosched()
		}
		var err error
		if c.to, err = c.Read(c.buffer[:]); c.to == 0 && err != nil {
			return 0, err
		}
	}
	return headLength(c.buffer[c.from:c.to]), nil
}

// awaitHead sets the deadline for the next read. The deadline of an idle connection is moved only if that makes a
// difference: moving it costs as much as parsing a request.
func (c *conn) awaitHead() {
	limit := c.server.options.First
	isIdle := c.state.Load() == idle
	if isIdle {
		limit = c.server.options.Idle
	}
	c.headUntil = time.Time{}
	if limit == 0 {
		c.limitRead(time.Time{})
		return
	}
	if c.now.IsZero() {
		c.now = time.Now()
	}
	until := c.now.Add(limit)
	c.now = time.Time{}
	if !isIdle {
		c.headUntil = until
	} else if early := until.Sub(c.readUntil); !c.readUntil.IsZero() && early >= 0 && early <= limit/16 {
		return
	}
	c.limitRead(until)
}

// limitRead sets the read deadline.
func (c *conn) limitRead(until time.Time) {
	if until.IsZero() && c.readUntil.IsZero() {
		return
	}
	c.readUntil = until
	c.Conn.SetReadDeadline(until) // reading fails if this does
}

// activate makes the connection active, unless Shutdown is closing it.
func (c *conn) activate() bool {
	if c.state.CompareAndSwap(idle, active) {
		c.server.options.ConnState(c.Conn, http.StateActive)
		return true
	}
	return c.state.CompareAndSwap(fresh, active) || c.state.Load() == active
}

// rest makes the connection idle, unless the next request is there already.
func (c *conn) rest() {
	c.headUntil = time.Time{}
	if limit := c.server.options.First; limit > 0 && c.from < c.to { // it has begun its next head
		c.headUntil = time.Now().Add(limit)
	}
	if headLength(c.buffer[c.from:c.to]) > 0 {
		return
	}
	c.state.Store(idle)
	c.server.options.ConnState(c.Conn, http.StateIdle)
}

// answer calls the handler, and reports whether the connection can serve another request.
func (c *conn) answer(r *request) (reusable bool) {
	w := newResponse(c, r)
	c.now = time.Time{}
	defer func() {
		r.ctx.end()
		c.unwatch()
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				c.server.options.ErrorLog.Printf("http: panic serving %v: %v\n%s", c.remote, p, debug.Stack())
			}
			w.flush() // the client sees that the rest is missing
		}
		w.release()
	}()
	c.server.options.Handler.ServeHTTP(w, &r.Request)
	r.ctx.end()
	return w.finish()
}

// A watcher reads from the connection while a handler runs, to notice that the client disconnects. If it reads the
// next request instead, it stops.
type watcher struct {
	aborted atomic.Bool
	done    chan struct{}
}

// watch calls cancel if the client disconnects before unwatch is called. Only a request's context calls it, once.
func (c *conn) watch(cancel context.CancelFunc) {
	w := &watcher{done: make(chan struct{})}
	c.watcher = w
	c.to = copy(c.buffer[:], c.buffer[c.from:c.to])
	c.from = 0
	c.limitRead(time.Time{})
	go func() {
		defer close(w.done)
		n, err := c.Read(c.buffer[c.to:])
		c.to += n
		if err != nil && !(w.aborted.Load() && errors.Is(err, os.ErrDeadlineExceeded)) {
			cancel()
		}
	}()
}

var longAgo = time.Unix(1, 0)

// unwatch ends the watcher. The request's context must have ended.
func (c *conn) unwatch() {
	w := c.watcher
	if w == nil {
		return
	}
	c.watcher = nil
	select {
	case <-w.done:
		return
	default:
	}
	w.aborted.Store(true)
	c.Conn.SetReadDeadline(longAgo)
	<-w.done
	c.Conn.SetReadDeadline(time.Time{})
}

package http1

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Server serves the common requests of connections.
type Server struct {
	options Options
	context context.Context
	rest    chan net.Conn
	closed  chan struct{} // closed when nothing accepts rest any more
	once    sync.Once     // closes closed
	date    atomic.Pointer[date]

	watchAfter time.Duration // see watchAfter

	stopping atomic.Bool
	mu       sync.Mutex
	conns    map[*conn]struct{}
}

// Options configure a server. All but the timeouts are required.
type Options struct {
	Handler http.Handler
	Context context.Context // parent of the contexts of requests

	First time.Duration // until a new connection sends its first bytes; 0: unlimited
	Idle  time.Duration // of a connection between two requests, or up to 1/16 less; 0: unlimited

	// ConnState is called as by an http.Server. A connection that is handed over is not closed: its next state is
	// the StateNew of the http.Server that serves Rest.
	ConnState func(net.Conn, http.ConnState)

	ErrorLog *log.Logger
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{options: o, rest: make(chan net.Conn), closed: make(chan struct{}), conns: map[*conn]struct{}{}, watchAfter: watchAfter}
	s.context = context.WithValue(o.Context, http.ServerContextKey, s) // httputil.ReverseProxy asks whether there is a server
	return s
}

// Serve accepts connections until the listener fails. It does not close the listener.
func (s *Server) Serve(l net.Listener) error {
	const minPause, maxPause = 5 * time.Millisecond, time.Second
	pause := minPause
	for {
		accepted, err := l.Accept()
		if err != nil {
			var failure interface{ Temporary() bool }
			if !errors.As(err, &failure) || !failure.Temporary() {
				return err
			}
			time.Sleep(pause)
			pause = min(2*pause, maxPause)
			continue
		}
		pause = minPause
		c := &conn{server: s, since: time.Now()}
		c.Init(accepted)
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.options.ConnState(accepted, http.StateNew)
		go c.serve()
	}
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Shutdown closes idle connections, and the others when they become idle. It returns when none is left or the context
// ends. Connections that are handed over do not count. The listener must be closed before.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for s.closeIdle() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

// closeIdle closes the connections that wait for a request, and returns how many connections there are. A new
// connection gets some time for its first request, as in net/http.
func (s *Server) closeIdle() int {
	const patience = 5 * time.Second
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.state.CompareAndSwap(idle, closing) || time.Since(c.since) > patience && c.state.CompareAndSwap(fresh, closing) {
			c.Conn.Close()
		}
	}
	return len(s.conns)
}

// Close closes all connections. It does not wait for handlers.
func (s *Server) Close() {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Conn.Close()
	}
}

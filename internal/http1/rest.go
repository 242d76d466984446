package http1

import (
	"net"
	"time"
)

// Rest returns the listener of the connections that are handed over. When it is
// closed, connections that would be handed over are closed instead.
func (s *Server) Rest(addr net.Addr) net.Listener { return &rest{s, addr} }

type rest struct {
	server *Server
	addr   net.Addr
}

func (r *rest) Accept() (net.Conn, error) {
	select {
	case c := <-r.server.rest:
		return c, nil
	case <-r.server.closed:
		return nil, net.ErrClosed
	}
}

func (r *rest) Close() error {
	r.server.once.Do(func() { close(r.server.closed) })
	return nil
}

func (r *rest) Addr() net.Addr { return r.addr }

// handOver gives the connection away, or returns false. What is read from it begins with the bytes that are not
// served.
func (c *conn) handOver() bool {
	handed := &Handed{Conn: c.Conn, unread: append([]byte(nil), c.buffer[c.from:c.to]...), until: c.headUntil}
	c.Conn.SetDeadline(time.Time{}) // a connection whose deadlines cannot be set cannot be read either
	select {
	case c.server.rest <- handed:
		return true
	case <-c.server.closed:
		return false
	}
}

// Handed is a connection that was handed over.
type Handed struct {
	net.Conn
	unread []byte
	until  time.Time // when the first head must have been read; zero: no deadline of this package
}

// NetConn returns the connection that was accepted.
func (h *Handed) NetConn() net.Conn { return h.Conn }

func (h *Handed) Read(p []byte) (int, error) {
	if len(h.unread) > 0 {
		n := copy(p, h.unread)
		if h.unread = h.unread[n:]; len(h.unread) == 0 {
			h.unread = nil
		}
		return n, nil
	}
	return h.Conn.Read(p)
}

// SetReadDeadline keeps the deadline of the first head: it does not start again when the connection is handed over.
func (h *Handed) SetReadDeadline(t time.Time) error {
	if until := h.until; !until.IsZero() {
		h.until = time.Time{}
		if t.After(until) {
			t = until
		}
	}
	return h.Conn.SetReadDeadline(t)
}

// CloseWrite is for net/http, which lets the client read the end of a response before it closes.
func (h *Handed) CloseWrite() error {
	if half, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Package connlimit bounds how many connections a listener has at a time, how many of them one client can hold, and
// how much memory their requests take.
package connlimit

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/penstock-io/penstock/internal/ipform"
	"github.com/penstock-io/penstock/internal/rawconn"
)

// Options configure a listener.
type Options struct {
	// Max is how many connections may be open at a time. At the maximum, idle connections are closed for new ones; if
	// none is idle, new ones wait, on the reserve or in the kernel. 0: unlimited.
	Max int

	// PerClient is how many connections may come from one IPv4 address or one IPv6 /64. Beyond that, idle connections
	// of the client are closed; if none is idle, further ones are put on the reserve or closed. 0: unlimited.
	PerClient int

	// Reserve is how many connections are accepted beyond Max and PerClient, so that health checks are answered: see
	// Admitted. If the reserve is full too, one of its connections is closed for a new one: one of the same client if
	// that has several there, else one of a client that has used up its share, else the oldest. 0: none.
	Reserve int

	Exempt  func(netip.Addr) bool // from PerClient: proxies that carry the requests of many clients; nil: none
	Refused func(netip.Prefix)    // called for every connection beyond the share of its client; nil: not called
}

// Share returns the number of connections that a percentage is, at least one. It returns 0 if there is no maximum or
// if the share is all of it.
func Share(most, percent int) int {
	if most == 0 || percent >= 100 {
		return 0
	}
	return max(most*percent/100, 1)
}

// A Listener accepts a bounded number of connections. ConnState must be called when connections become idle or
// active; Prepare makes an http.Server do so. Accept must not be called concurrently.
type Listener struct {
	net.Listener
	options Options

	mu      sync.Mutex
	changed *sync.Cond // a connection was closed, or the listener
	closed  bool
	open    int  // not counting those on the reserve
	waiting bool // Accept waits for a connection to be closed
	clients map[netip.Prefix]*client
	idle    queue      // longest idle first
	reserve *list.List // of *conn, oldest first
}

// A client is one prefix and its connections.
type client struct {
	prefix netip.Prefix
	conns  int
	open   int // not counting those on the reserve
	idle   queue
}

// A conn is an accepted connection.
type conn struct {
	rawconn.Socket
	listener *Listener
	client   *client     // nil: it does not count for a client
	admitted atomic.Bool // it is not on the reserve

	closed           bool
	idle             bool
	inAll, inClients links // in the queues of idle connections
	inReserve        *list.Element
	wake             chan struct{} // closed when a connection that waits to be admitted is admitted or closed
}

// New bounds a listener.
func New(l net.Listener, o Options) *Listener {
	b := &Listener{Listener: l, options: o, clients: map[netip.Prefix]*client{}, idle: queue{links: inAll}, reserve: list.New()}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// Accept returns the next connection that its client may open. Without a reserve it waits until there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		if !l.await() {
			return nil, net.ErrClosed
		}
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.take(accepted); c != nil {
			return c, nil
		}
	}
}

// Close closes the listener. Its connections stay open.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// await waits until one more connection can be accepted. It returns false if the listener was closed.
func (l *Listener) await() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.options.Reserve == 0 && l.full() && !l.closed {
		if l.closeOldest(&l.idle) {
			continue
		}
		l.waiting = true
		l.changed.Wait()
	}
	l.waiting = false
	return !l.closed
}

func (l *Listener) full() bool { return l.options.Max > 0 && l.open >= l.options.Max }

// take registers a connection. It returns nil if the client has used up its share and there is no reserve: the
// connection is then closed.
func (l *Listener) take(accepted net.Conn) *conn {
	c := &conn{listener: l}
	c.Init(accepted)
	prefix, counted := l.charged(accepted)
	l.mu.Lock()
	if counted {
		c.client = l.clientOf(prefix)
		c.client.conns++
	}
	admitted, refused := l.admit(c), l.hasShare(c)
	switch {
	case admitted:
	case l.options.Reserve > 0:
		l.park(c)
	default:
		l.drop(c)
		c = nil
	}
	l.mu.Unlock()
	if !admitted && refused && l.options.Refused != nil {
		l.options.Refused(prefix)
	}
	return c
}

func (l *Listener) clientOf(prefix netip.Prefix) *client {
	of := l.clients[prefix]
	if of == nil {
		of = &client{prefix: prefix, idle: queue{links: inClients}}
		l.clients[prefix] = of
	}
	return of
}

// hasShare reports whether the client of a connection has used up its share.
func (l *Listener) hasShare(c *conn) bool {
	return c.client != nil && l.options.PerClient > 0 && c.client.open >= l.options.PerClient
}

// admit counts the connection towards Max, if there is room or an idle connection can be closed for it. The lock must
// be held, as for all functions below.
func (l *Listener) admit(c *conn) bool {
	if l.hasShare(c) && !l.closeOldest(&c.client.idle) || l.full() && !l.closeOldest(&l.idle) {
		return false
	}
	l.open++
	if c.client != nil {
		c.client.open++
	}
	c.leaveReserve()
	c.admitted.Store(true)
	c.endWait()
	return true
}

// closeOldest closes the connection that has been idle longest. It returns false if there is none.
func (l *Listener) closeOldest(idle *queue) bool {
	oldest := idle.first
	if oldest != nil {
		l.drop(oldest)
	}
	return oldest != nil
}

// drop closes a connection. The caller decides who gets the room.
func (l *Listener) drop(c *conn) error {
	if !c.closed {
		c.closed = true
		c.notIdle()
		c.leaveReserve()
		if c.admitted.Load() {
			l.open--
		}
		if of := c.client; of != nil {
			if c.admitted.Load() {
				of.open--
			}
			if of.conns--; of.conns == 0 {
				delete(l.clients, of.prefix)
			}
		}
		c.endWait()
		l.changed.Broadcast()
	}
	return c.Conn.Close()
}

// charged returns the client that a connection counts for, or false if there is none.
func (l *Listener) charged(c net.Conn) (netip.Prefix, bool) {
	ip, ok := addressOf(c)
	if !ok || l.options.Exempt != nil && l.options.Exempt(ip) {
		return netip.Prefix{}, false
	}
	return prefixOf(ip), true
}

func addressOf(c net.Conn) (netip.Addr, bool) {
	address, err := netip.ParseAddrPort(c.RemoteAddr().String())
	return address.Addr().Unmap().WithZone(""), err == nil
}

// prefixOf returns what identifies a client: an IPv4 address, or an IPv6 /64.
func prefixOf(ip netip.Addr) netip.Prefix {
	return ipform.Network(ip, 64)
}

// ConnState is a hook for http.Server.
func (l *Listener) ConnState(of net.Conn, state http.ConnState) {
	c := inner(of)
	if c == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case state != http.StateIdle:
		c.notIdle()
	case c.closed || !c.admitted.Load() || c.idle:
	case l.waiting || l.reserveWaits():
		l.drop(c)
		l.admitWaiting()
	default:
		c.idle = true
		l.idle.push(c)
		if c.client != nil {
			c.client.idle.push(c)
		}
	}
}

// inner returns the connection that a listener of this package has accepted, or nil if there is none.
func inner(of net.Conn) *conn {
	if h, ok := of.(*http2Conn); ok {
		of = h.Conn
	}
	if secure, ok := of.(interface{ NetConn() net.Conn }); ok {
		of = secure.NetConn()
	}
	c, _ := of.(*conn)
	return c
}

// notIdle removes the connection from the queues of idle ones.
func (c *conn) notIdle() {
	if !c.idle {
		return
	}
	c.idle = false
	c.listener.idle.remove(c)
	if c.client != nil {
		c.client.idle.remove(c)
	}
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	err := c.listener.drop(c)
	c.listener.admitWaiting()
	return err
}

// CloseWrite is for net/http, which lets the client read the end of a response before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// SyscallConn is for servers that read and write by themselves.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if raw := c.Raw(); raw != nil {
		return raw, nil
	}
	return nil, errors.ErrUnsupported
}

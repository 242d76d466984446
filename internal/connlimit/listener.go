// Package connlimit bounds how many connections a listener has at a time, and how many of them one
// client can hold.
package connlimit

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Options of a listener.
type Options struct {
	// Max is how many connections there may be at a time. While there are as many, others wait in the
	// kernel, and idle connections are closed for them. 0: any number.
	Max int

	// PerClient is how many of them may come from one IPv4 address or one IPv6 /64. Further ones are
	// closed, unless the client has an idle connection that can be closed instead. 0: any number.
	PerClient int

	Exempt  func(netip.Addr) bool // from PerClient: proxies that carry the requests of many clients; nil: nobody
	Refused func(netip.Prefix)    // is told of every connection that was closed for PerClient; nil: nobody
}

// Share returns how many connections a share of so many percent is, at least one; 0 if there is no
// maximum or the share is all.
func Share(most, percent int) int {
	if most == 0 || percent >= 100 {
		return 0
	}
	return max(most*percent/100, 1)
}

// A Listener accepts bounded numbers of connections. For HTTP, ConnState has to be the server's hook,
// so that idle connections are known.
type Listener struct {
	net.Listener
	options Options

	mu      sync.Mutex
	changed *sync.Cond // a connection was closed, or the listener
	closed  bool
	open    int
	waiting bool // Accept waits for a connection to be closed
	clients map[netip.Prefix]*client
	idle    *list.List // of *conn, the one that is idle longest first
}

// A client is one prefix and its connections.
type client struct {
	prefix netip.Prefix
	open   int
	idle   *list.List
}

// A conn is one that was accepted.
type conn struct {
	net.Conn
	listener *Listener
	client   *client // nil: it is not counted for one

	closed           bool
	inAll, inClients *list.Element // of the lists of idle ones; nil: it is not idle
}

// New bounds a listener.
func New(l net.Listener, o Options) *Listener {
	b := &Listener{Listener: l, options: o, clients: map[netip.Prefix]*client{}, idle: list.New()}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// Accept waits until there is room, and for a connection of a client that may have one more.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		if !l.reserve() {
			return nil, net.ErrClosed
		}
		accepted, err := l.Listener.Accept()
		if err != nil {
			l.unreserve()
			return nil, err
		}
		if c := l.admit(accepted); c != nil {
			return c, nil
		}
		accepted.Close()
		l.unreserve()
	}
}

// Close closes the listener. Connections stay.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	l.changed.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// reserve makes room for a connection. It returns false if the listener was closed.
func (l *Listener) reserve() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.options.Max > 0 && l.open >= l.options.Max && !l.closed {
		if oldest := l.idle.Front(); oldest != nil {
			l.closeLocked(oldest.Value.(*conn))
			continue
		}
		l.waiting = true
		l.changed.Wait()
	}
	l.waiting = false
	l.open++
	return !l.closed
}

func (l *Listener) unreserve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.changed.Broadcast()
}

// admit returns nil if the client has as many connections as it may have and none of them is idle.
func (l *Listener) admit(accepted net.Conn) net.Conn {
	c := &conn{Conn: accepted, listener: l}
	prefix, counted := l.prefixOf(accepted)
	if !counted {
		return c
	}
	l.mu.Lock()
	of := l.clients[prefix]
	if of == nil {
		of = &client{prefix: prefix, idle: list.New()}
		l.clients[prefix] = of
	}
	if of.open >= l.options.PerClient {
		oldest := of.idle.Front()
		if oldest == nil {
			l.mu.Unlock()
			if l.options.Refused != nil {
				l.options.Refused(prefix)
			}
			return nil
		}
		of.open++ // so that it is not forgotten
		l.closeLocked(oldest.Value.(*conn))
		of.open--
	}
	of.open++
	c.client = of
	l.mu.Unlock()
	return c
}

// prefixOf returns what tells clients apart: an IPv4 address, or an IPv6 /64. It returns false for a
// connection that no client is charged with.
func (l *Listener) prefixOf(c net.Conn) (netip.Prefix, bool) {
	address, err := netip.ParseAddrPort(c.RemoteAddr().String())
	ip := address.Addr().Unmap().WithZone("")
	if err != nil || l.options.PerClient == 0 || l.options.Exempt != nil && l.options.Exempt(ip) {
		return netip.Prefix{}, false
	}
	bits := 32
	if ip.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(ip, bits).Masked(), true
}

// ConnState is a hook for http.Server.
func (l *Listener) ConnState(of net.Conn, state http.ConnState) {
	if secure, ok := of.(interface{ NetConn() net.Conn }); ok {
		of = secure.NetConn()
	}
	c, ok := of.(*conn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case state != http.StateIdle:
		c.notIdle()
	case l.waiting:
		l.closeLocked(c)
	case !c.closed && c.inAll == nil:
		c.inAll = l.idle.PushBack(c)
		if c.client != nil {
			c.inClients = c.client.idle.PushBack(c)
		}
	}
}

// notIdle takes the connection off the lists. The listener's lock must be held.
func (c *conn) notIdle() {
	if c.inAll != nil {
		c.listener.idle.Remove(c.inAll)
	}
	if c.inClients != nil {
		c.client.idle.Remove(c.inClients)
	}
	c.inAll, c.inClients = nil, nil
}

// Close makes room for another connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.listener.closeLocked(c)
}

func (l *Listener) closeLocked(c *conn) error {
	if !c.closed {
		c.closed = true
		c.notIdle()
		l.open--
		if of := c.client; of != nil {
			if of.open--; of.open == 0 {
				delete(l.clients, of.prefix)
			}
		}
		l.changed.Broadcast()
	}
	return c.Conn.Close()
}

// CloseWrite is for net/http, which lets the client read the end of a response before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

package faults

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A proxy is a link to a server that can be degraded.
type proxy struct {
	Addr string

	listener net.Listener
	target   string
	link     atomic.Pointer[link]

	mu     sync.Mutex
	closed bool
	conns  map[*net.TCPConn]*atomic.Bool // which tells whether it is swallowed
	pumps  sync.WaitGroup
}

// A link is how the proxy treats what passes. The zero value is a good one.
type link struct {
	delay  time.Duration // of each direction
	silent bool          // nothing arrives until the link is another; then what was sent arrives late
	lose   float64       // share of replies that are lost with their connection, after the server has done what was asked
	reset  float64       // share of requests that are lost with their connection, before the server sees them
	over   chan struct{} // closed when the link is another
}

func startProxy(t *testing.T, target string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{Addr: l.Addr().String(), listener: l, target: target, conns: map[*net.TCPConn]*atomic.Bool{}}
	p.link.Store(&link{over: make(chan struct{})})
	p.pumps.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// set makes the link another one.
func (p *proxy) set(l link) {
	l.over = make(chan struct{})
	close(p.link.Swap(&l).over)
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

// swallow drops the existing connections silently, like a firewall that was restarted: nothing arrives on them
// any more, and neither end notices. New connections are not affected.
func (p *proxy) swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, swallowed := range p.conns {
		swallowed.Store(true)
	}
}

// reset closes a connection as a crash or a firewall does.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // it may be closed
	c.Close()
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.cut()
	p.set(link{})
	p.pumps.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

func (p *proxy) serve(client *net.TCPConn) {
	defer client.Close()
	dialled, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(client)
		return
	}
	server := dialled.(*net.TCPConn)
	defer server.Close()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	swallowed := new(atomic.Bool)
	p.conns[client], p.conns[server] = swallowed, swallowed
	p.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client, swallowed, func(l *link) float64 { return l.reset }) })
	both.Go(func() { p.pump(client, server, swallowed, func(l *link) float64 { return l.lose }) })
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// A packet is on its way.
type packet struct {
	data []byte
	due  time.Time
}

// pump moves bytes one way until either end is closed. It keeps reading while packets are in transit: the link
// has delay, but no bandwidth limit.
func (p *proxy) pump(to, from *net.TCPConn, swallowed *atomic.Bool, loss func(*link) float64) {
	wire := make(chan packet, 1024)
	var delivery sync.WaitGroup
	delivery.Go(func() { p.deliver(to, from, wire, swallowed, loss) })
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if err != nil {
			break
		}
		wire <- packet{data[:n], time.Now().Add(p.link.Load().delay)}
	}
	close(wire)
	delivery.Wait()
}

func (p *proxy) deliver(to, from *net.TCPConn, wire <-chan packet, swallowed *atomic.Bool, loss func(*link) float64) {
	defer to.Close()
	defer from.Close()
	for packet := range wire {
		time.Sleep(time.Until(packet.due))
		l := p.link.Load()
		for l.silent {
			<-l.over
			l = p.link.Load()
		}
		if swallowed.Load() {
			continue
		}
		if rand.Float64() < loss(l) {
			reset(to)
			reset(from)
			break
		}
		if _, err := to.Write(packet.data); err != nil {
			break
		}
	}
	for range wire { // its reader continues until it sees that the connection is closed
	}
}

package lab

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A DelayProxy forwards TCP connections and delays every byte by half the round trip in each direction. Bytes keep
// their order and their pace, so a pipeline of a hundred commands waits once, as on a long wire.
type DelayProxy struct {
	listener net.Listener
	target   string
	oneWay   time.Duration

	mu    sync.Mutex
	conns []net.Conn // nil after Close
	pumps sync.WaitGroup
}

// NewDelayProxy listens on a free loopback port and forwards to target, adding roundTrip to every exchange.
func NewDelayProxy(target string, roundTrip time.Duration) (*DelayProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("delay proxy for %s: listen: %w", target, err)
	}
	p := &DelayProxy{listener: l, target: target, oneWay: roundTrip / 2, conns: []net.Conn{}}
	p.pumps.Go(p.accept)
	return p, nil
}

// Addr returns where clients connect instead of to the target.
func (p *DelayProxy) Addr() string { return p.listener.Addr().String() }

// Close closes every connection and returns when no goroutine is left.
func (p *DelayProxy) Close() error {
	err := p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.pumps.Wait()
	return err
}

func (p *DelayProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.connect(client) != nil {
			client.Close() // as when a server fails
		}
	}
}

func (p *DelayProxy) connect(client net.Conn) error {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		server.Close()
		return errors.New("closed")
	}
	p.conns = append(p.conns, client, server)
	p.pumps.Go(func() { p.pump(server, client) })
	p.pumps.Go(func() { p.pump(client, server) })
	return nil
}

// chunk is bytes in transit.
type chunk struct {
	data []byte
	due  time.Time
}

// pump moves bytes one way. It keeps reading while earlier chunks are in transit, so it adds delay without reducing
// throughput. The end of the stream is delayed like bytes.
func (p *DelayProxy) pump(to, from net.Conn) {
	wire := make(chan chunk, 4096)
	p.pumps.Go(func() { deliver(to, from, wire) })
	defer close(wire)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		wire <- chunk{buf[:n], time.Now().Add(p.oneWay)}
		if err != nil {
			return
		}
	}
}

// deliver writes chunks when they are due. After a failed write it closes the sender's connection, because there is no
// receiver.
func deliver(to, from net.Conn, wire <-chan chunk) {
	for c := range wire {
		for wait := time.Until(c.due); wait > 0; wait = time.Until(c.due) {
			Sleep(wait)
		}
		if _, err := to.Write(c.data); err != nil {
			from.Close()
		}
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		tcp.CloseWrite()
	}
}

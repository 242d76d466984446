package race

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// DelayProxy forwards TCP connections and delays every byte: half the round trip in each direction. Bytes keep
// their order and their pace, so a pipeline of a hundred commands waits once, as on a long wire.
type DelayProxy struct {
	listener net.Listener
	target   string
	oneWay   time.Duration

	// Every chunk waits equally long, so one queue for all connections and both directions is in order of due time,
	// and one clock serves it. With a hundred connections, a timer each would load the measuring machine.
	wire  chan chunk
	clock sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	pumps  sync.WaitGroup
}

// chunk is bytes in transit, or the end of their stream if data is nil.
type chunk struct {
	data []byte
	due  time.Time
	to   *outbox
}

// inFlight is how many chunks may wait for their time. Beyond it readers pause until the clock has caught up,
// which it always does.
const inFlight = 4096

// chunkSize is the size of the largest read. Larger bursts travel as several chunks with almost the same due
// time.
const chunkSize = 16 << 10

// NewDelayProxy listens on a free loopback port and forwards to target, adding
// roundTrip to every exchange.
func NewDelayProxy(target string, roundTrip time.Duration) (*DelayProxy, error) {
	if roundTrip < 0 {
		return nil, fmt.Errorf("delay proxy for %s: round trip must not be negative, got %v", target, roundTrip)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("delay proxy for %s: listen: %w", target, err)
	}
	p := &DelayProxy{listener: l, target: target, oneWay: roundTrip / 2, wire: make(chan chunk, inFlight), conns: map[net.Conn]struct{}{}}
	p.clock.Go(p.tick)
	p.pumps.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns where clients connect instead of to the target.
func (p *DelayProxy) Addr() string { return p.listener.Addr().String() }

// Close closes every connection and returns when no goroutine is left.
func (p *DelayProxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	err := p.listener.Close()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.pumps.Wait()
	close(p.wire)
	p.clock.Wait()
	return err
}

// tick forwards every chunk when it is due.
func (p *DelayProxy) tick() {
	alarm := newAlarm()
	defer alarm.close()
	for c := range p.wire {
		alarm.waitUntil(c.due)
		c.to.put(c.data)
	}
}

func (p *DelayProxy) accept() {
	defer p.pumps.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pumps.Add(1)
		go p.serve(client)
	}
}

func (p *DelayProxy) serve(client net.Conn) {
	defer p.pumps.Done()
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return // the client sees its connection closed, as when a server fails
	}
	defer server.Close()
	if !p.track(client, server) {
		return
	}
	defer p.forget(client, server)

	var both sync.WaitGroup
	both.Go(func() { p.pump(server, client) })
	both.Go(func() { p.pump(client, server) })
	both.Wait()
}

func (p *DelayProxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *DelayProxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// pump moves bytes one way. It keeps reading while earlier chunks are in transit, so it adds delay without
// reducing throughput. The end of the stream is delayed like bytes.
func (p *DelayProxy) pump(to, from net.Conn) {
	arrived := newOutbox()
	var delivery sync.WaitGroup
	delivery.Go(func() { deliver(to, from, arrived) })
	for {
		buf := make([]byte, chunkSize)
		n, err := from.Read(buf)
		if n > 0 {
			p.wire <- chunk{buf[:n], time.Now().Add(p.oneWay), arrived}
		}
		if err != nil {
			break
		}
	}
	p.wire <- chunk{nil, time.Now().Add(p.oneWay), arrived}
	delivery.Wait()
}

// deliver writes the chunks that have arrived. After a failed write it only closes the sender's connection,
// because there is no receiver.
func deliver(to, from net.Conn, arrived *outbox) {
	defer func() {
		if tcp, ok := to.(*net.TCPConn); ok {
			tcp.CloseWrite()
		}
	}()
	for {
		data := arrived.take()
		if data == nil {
			return
		}
		if _, err := to.Write(data); err != nil {
			from.Close()
			return
		}
	}
}

package race

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// DelayProxy forwards TCP connections and makes every byte arrive later: half
// the round trip on the way out, half on the way back. Bytes keep their order
// and their pace, so a pipeline of a hundred commands waits once, as it does on
// a long wire.
type DelayProxy struct {
	listener net.Listener
	target   string
	oneWay   time.Duration

	// Every chunk waits equally long, so one queue for all connections and both
	// directions is in order of due time, and one clock serves it: with a
	// hundred connections, a timer each would load the machine that measures.
	wire  chan chunk
	clock sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	pumps  sync.WaitGroup
}

// chunk is bytes on their way, or the end of their stream if data is nil.
type chunk struct {
	data []byte
	due  time.Time
	to   *outbox
}

// inFlight is how many chunks may wait for their time; beyond it readers pause
// until the clock has caught up, which it always does.
const inFlight = 4096

// chunkSize is the most one read takes; larger bursts travel as several chunks
// with almost the same due time.
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

// Addr is where clients connect instead of to the target.
func (p *DelayProxy) Addr() string { return p.listener.Addr().String() }

// Close cuts every connection and returns when no goroutine is left.
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

// tick hands every chunk on when it is due.
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
		return // the client sees its connection closed, as when a server is gone
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

// pump moves bytes one way. Reading goes on while earlier chunks are still on
// their way: a delay, not a brake. The end of the stream is delayed like bytes.
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

// deliver writes what has arrived, to its end. After a failed write it only
// hangs up on the sender: nobody is left to receive.
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

package connlimit

import (
	"cmp"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// HTTP2Options configure a listener.
type HTTP2Options struct {
	// MaxBytes bounds the memory of the requests in flight on all connections together. Beyond it, connections are
	// closed: first those of the client that holds most, and of these the one that holds most.
	MaxBytes int64

	TLS *tls.Config // nil: clients connect without TLS

	// Refused is called for every client whose TLS handshake failed; nil: not called.
	Refused func(client net.Addr, err error)

	// Reset is called after connections were closed because of MaxBytes, with their number, the client of the first
	// one, and the bytes that all of them held; nil: not called.
	Reset func(closed int, client netip.Prefix, bytes int64)
}

// An HTTP2Listener accepts HTTP/2 connections. It terminates TLS itself, and reads the frame headers of both
// directions, so it knows which requests are in flight and how much of each has arrived. If the listener it wraps is
// a Listener, it reports to it which connections are idle.
type HTTP2Listener struct {
	net.Listener
	options HTTP2Options
	bytes   atomic.Int64 // held by requests in flight

	mu    sync.Mutex
	conns map[*http2Conn]bool
}

// NewHTTP2 bounds the memory of the requests that arrive through a listener.
func NewHTTP2(l net.Listener, o HTTP2Options) *HTTP2Listener {
	return &HTTP2Listener{Listener: l, options: o, conns: map[*http2Conn]bool{}}
}

// Accept returns the next connection.
func (l *HTTP2Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.options.TLS != nil {
		accepted = tls.Server(accepted, l.options.TLS) // the handshake is part of the first read
	}
	c := &http2Conn{Conn: accepted, listener: l, streams: map[uint32]int64{}, in: frames{skip: len(http2Preface)}}
	if ip, ok := addressOf(accepted); ok {
		c.client = prefixOf(ip)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = true
	return c, nil
}

// makeRoom closes connections until an eighth of the maximum is free, so that during a flood not every frame causes a
// search for the largest client.
func (l *HTTP2Listener) makeRoom() {
	closed, bytes := l.largest(l.options.MaxBytes-l.options.MaxBytes/8), int64(0)
	for _, c := range closed {
		c.conn.Close()
		bytes += c.bytes
	}
	if len(closed) > 0 && l.options.Reset != nil {
		l.options.Reset(len(closed), closed[0].conn.client, bytes)
	}
}

// A connMemory is the memory of the requests of a connection, and of those of its client.
type connMemory struct {
	conn          *http2Conn
	bytes, client int64
}

// largest removes and returns the connections to close, so that the others hold at most enough.
func (l *HTTP2Listener) largest(enough int64) []connMemory {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes.Load() <= l.options.MaxBytes {
		return nil // another goroutine has made room
	}
	all, clients := make([]connMemory, 0, len(l.conns)), map[netip.Prefix]int64{}
	for c := range l.conns {
		bytes := c.held()
		all = append(all, connMemory{conn: c, bytes: bytes})
		clients[c.client] += bytes
	}
	for i := range all {
		all[i].client = clients[all[i].conn.client]
	}
	slices.SortFunc(all, func(a, b connMemory) int {
		return cmp.Or(cmp.Compare(b.client, a.client), b.conn.client.Addr().Compare(a.conn.client.Addr()), cmp.Compare(b.bytes, a.bytes))
	})
	n := 0
	for ; n < len(all) && l.bytes.Load() > enough; n++ {
		all[n].conn.forget()
		delete(l.conns, all[n].conn)
	}
	return all[:n]
}

// An http2Conn knows the open streams of a connection.
type http2Conn struct {
	net.Conn
	listener *HTTP2Listener
	client   netip.Prefix
	in, out  frames // each is used by one goroutine, the reading or the writing one

	mu      sync.Mutex
	closed  bool
	idle    bool
	streams map[uint32]int64 // bytes that each holds
	bytes   int64            // total
}

// Read counts the bytes that arrive.
func (c *http2Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.checkHandshake(err)
	}
	grown := false
	for rest := p[:n]; len(rest) > 0; {
		var f frame
		if f, rest = c.in.next(rest); f.complete && c.received(f) {
			grown = true
		}
	}
	if grown && c.listener.bytes.Load() > c.listener.options.MaxBytes {
		c.listener.makeRoom()
	}
	return n, err
}

// checkHandshake reports an error that ended the TLS handshake.
func (c *http2Conn) checkHandshake(err error) {
	if secure, ok := c.Conn.(*tls.Conn); ok && c.listener.options.Refused != nil && !secure.ConnectionState().HandshakeComplete {
		c.listener.options.Refused(c.RemoteAddr(), err)
	}
}

// Write notices which requests have been answered.
func (c *http2Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	for rest := p[:n]; len(rest) > 0; {
		var f frame
		if f, rest = c.out.next(rest); f.complete && f.ends() {
			c.end(f.stream)
		}
	}
	return n, err
}

// received counts a frame. It reports whether the connection now holds more memory.
func (c *http2Conn) received(f frame) bool {
	switch f.kind {
	case frameReset:
		c.end(f.stream)
		return false
	case frameData, frameHeaders, frameContinuation, frameSettings:
	default:
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.streams[f.stream]
	cost := f.cost()
	switch {
	case c.closed:
		return false
	case f.kind == frameHeaders && !open:
		cost += streamCost
		c.state(false)
	case !open: // settings, or a stream that has ended
		c.state(len(c.streams) == 0)
		return false
	}
	c.streams[f.stream] += cost
	c.bytes += cost
	c.listener.bytes.Add(cost)
	return true
}

// end stops counting a stream.
func (c *http2Conn) end(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cost, open := c.streams[stream]
	if !open {
		return
	}
	delete(c.streams, stream)
	c.bytes -= cost
	c.listener.bytes.Add(-cost)
	c.state(len(c.streams) == 0)
}

// state tells the listener when the connection becomes idle or active. The lock must be held.
func (c *http2Conn) state(idle bool) {
	if c.idle == idle {
		return
	}
	c.idle = idle
	if l, ok := c.listener.Listener.(*Listener); ok {
		state := http.StateActive
		if idle {
			state = http.StateIdle
		}
		l.ConnState(c.Conn, state)
	}
}

func (c *http2Conn) held() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// forget stops counting all streams.
func (c *http2Conn) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener.bytes.Add(-c.bytes)
	c.closed, c.bytes, c.streams = true, 0, nil
}

// Close closes the connection and stops counting it.
func (c *http2Conn) Close() error {
	c.forget()
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

const (
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	frameHeader  = 9 // bytes

	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	frameContinuation = 9
	flagEnd           = 1 // of the stream, in frames of data and headers

	streamCost = 8 << 10 // a goroutine and its memory
	frameCost  = 64      // overhead of a buffered frame
)

// A frame is the header of a frame.
type frame struct {
	complete    bool
	kind, flags byte
	length      int
	stream      uint32
}

// ends reports whether a frame from the server ends the stream.
func (f frame) ends() bool {
	return f.kind == frameReset || (f.kind == frameData || f.kind == frameHeaders) && f.flags&flagEnd != 0
}

// cost returns the memory that a frame takes. grpc keeps data in buffers of 4 KiB and 16 KiB, or of the exact size
// below 1 KiB.
func (f frame) cost() int64 {
	switch {
	case f.kind == frameData && f.length > 4<<10:
		return frameCost + int64(max(f.length, 16<<10))
	case f.kind == frameData && f.length > 1<<10:
		return frameCost + 4<<10
	}
	return frameCost + int64(f.length)
}

// frames finds the frame headers in one direction of a connection.
type frames struct {
	skip   int // bytes until the next header
	have   int // bytes of the header so far
	header [frameHeader]byte
}

// next consumes the next bytes of the connection, up to the end of a frame header. It returns the frame, which is
// complete if its header is, and the remaining bytes.
func (s *frames) next(p []byte) (f frame, rest []byte) {
	n := min(s.skip, len(p))
	s.skip -= n
	p = p[n:]
	n = copy(s.header[s.have:], p)
	if s.have += n; s.have < frameHeader {
		return frame{}, p[n:]
	}
	f = frame{
		complete: true, kind: s.header[3], flags: s.header[4],
		length: int(s.header[0])<<16 | int(s.header[1])<<8 | int(s.header[2]),
		stream: binary.BigEndian.Uint32(s.header[5:]) &^ (1 << 31),
	}
	s.skip, s.have = f.length, 0
	return f, p[n:]
}

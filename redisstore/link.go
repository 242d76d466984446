package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/internal/rawconn"
)

// links are the connections of one client to Redis.
type links struct {
	limit   func() time.Duration // how long Redis may owe a reply
	observe func(time.Duration)  // receives how long a reply took
	connect time.Duration        // how long connecting may take

	mu  sync.Mutex
	all map[*link]struct{}

	heard     atomic.Int64 // when Redis last sent anything, see clock
	owesSince atomic.Int64 // since when it has owed replies to links that were closed because of that; 0: none
}

// A link is a connection that tracks since when Redis has owed it a reply. It corrects the deadlines of the
// client library, which also expire while this process waits for CPU. Redis is not late if the command has
// not been written yet, or if the reply has not been read yet.
type link struct {
	rawconn.Socket // set once connected
	set            *links

	mu        sync.Mutex
	socket    syscall.RawConn // nil if the connection has none
	connected bool
	since     int64  // when the oldest unanswered command was written, or connecting began; 0: neither
	reads     int64  // reads that returned something
	bytes     uint64 // bytes they returned

	// Used by the goroutine that reads. A pipelined connection has no deadline.
	end    time.Time // set by the client library; a caller's own deadline arrives here
	armed  time.Time // set on the connection
	looked bool      // whether the socket was checked after the deadline
}

const (
	// jitter is how late a timer may fire on a machine with idle CPU.
	jitter = time.Millisecond
	// glance is the deadline of a read that only takes what is already in the socket.
	glance = time.Millisecond
)

var epoch = time.Now()

// clock returns the monotonic time in ns, never 0.
func clock() int64 { return int64(time.Since(epoch)) + 1 }

type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error)

func newLinks(limit func() time.Duration, observe func(time.Duration), connect time.Duration) *links {
	return &links{limit: limit, observe: observe, connect: connect, all: map[*link]struct{}{}}
}

// dialer returns a function that makes links. Several requests may wait for a connection and more will use
// it, so the deadline of the first one does not apply. Only with unix may the address be a Unix socket: a
// cluster must not send its clients to sockets of this machine.
func (s *links) dialer(custom dialFunc, unix bool) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.connect)
		defer cancel()
		l := &link{set: s, since: clock()}
		if d.KeepAlive == keepAliveIdle { // otherwise it goes to a sentinel, which decides nothing
			s.mu.Lock()
			s.all[l] = struct{}{}
			s.mu.Unlock()
		}
		own := *d
		own.Control = func(_, _ string, c syscall.RawConn) error {
			l.mu.Lock()
			l.socket = c
			l.mu.Unlock()
			return nil
		}
		var err error
		if custom != nil {
			l.Conn, err = custom(ctx, addr, &own, t) // read and written by its own methods, which may do more
		} else {
			err = l.open(ctx, addr, &own, unix)
		}
		if err != nil {
			s.remove(l)
			return nil, err
		}
		l.mu.Lock()
		l.connected, l.since = true, 0
		l.mu.Unlock()
		if custom != nil || t == nil {
			return l, nil
		}
		return l.secure(ctx, addr, t)
	}
}

// open connects to an address.
func (l *link) open(ctx context.Context, addr string, d *net.Dialer, unix bool) error {
	network, to := "tcp", addr
	if unix {
		network, to = networkOf(addr)
	}
	conn, err := d.DialContext(ctx, network, to)
	if err == nil {
		l.Init(conn)
	}
	return err
}

// networkOf returns how to connect to an address: host:port, or unix:///path.
func networkOf(addr string) (network, to string) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// secure adds TLS to the connection. The link stays below it, where it counts the socket's bytes.
func (l *link) secure(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	conn := tls.Client(l, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return conn, nil
}

func (s *links) remove(l *link) {
	s.mu.Lock()
	delete(s.all, l)
	s.mu.Unlock()
}

func (l *link) Close() error {
	l.set.remove(l)
	return l.Conn.Close()
}

// Write starts the time limit of Redis once the command is written.
func (l *link) Write(b []byte) (n int, err error) {
	l.mu.Lock()
	reads := l.reads
	l.mu.Unlock()
	for {
		var k int
		k, err = l.Socket.Write(b[n:])
		n += k
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(l.end) {
			break
		}
		l.arm(time.Now().Add(l.set.limit())) // the deadline was set for the reply
	}
	l.mu.Lock()
	if l.since == 0 && l.reads == reads { // otherwise the reply may have arrived already
		l.since = clock()
	}
	l.mu.Unlock()
	return n, err
}

// Read returns a reply that has arrived, even after the deadline.
func (l *link) Read(b []byte) (n int, err error) {
	for {
		n, err = l.Socket.Read(b)
		if n > 0 {
			l.noteReply(n)
			return n, err
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !l.extend() {
			return n, err
		}
	}
}

// noteReply records that Redis has sent something.
func (l *link) noteReply(n int) {
	now := clock()
	l.mu.Lock()
	since := l.since
	l.since = 0
	l.reads++
	l.bytes += uint64(n)
	l.mu.Unlock()
	if since != 0 {
		l.set.observe(time.Duration(now - since))
	}
	l.set.heard.Store(now)
	if l.set.owesSince.Load() != 0 {
		l.set.owesSince.Store(0)
	}
}

// SetDeadline takes the deadline of the client library. Redis gets at most the limit, see extend.
func (l *link) SetDeadline(t time.Time) error {
	l.end = t
	if !t.IsZero() {
		if due := time.Now().Add(l.set.limit()); due.Before(t) {
			t = due
		}
	}
	return l.arm(t)
}

func (l *link) arm(t time.Time) error {
	l.armed, l.looked = t, false
	return l.Conn.SetDeadline(t)
}

// extend reports whether to continue reading after the deadline. Redis has its limit from the time the
// command was written. If the timer fired late, this process was not running, and Redis gets the same time
// again. The last read finds a reply that is already in the socket.
func (l *link) extend() bool {
	now, limit := time.Now(), l.set.limit()
	l.mu.Lock()
	since := l.since
	l.mu.Unlock()
	if since == 0 { // part of the reply has arrived
		since = l.set.heard.Load()
	}
	due := epoch.Add(time.Duration(since)).Add(limit)
	late := now.Sub(l.armed)
	switch {
	case !now.Before(l.end): // the caller's time is up, or the extensions are used up
		if l.looked {
			break
		}
		l.arm(now.Add(glance))
		l.looked = true
		return true
	case now.Before(due):
		l.arm(earlier(due, l.end))
		return true
	case late > jitter:
		l.arm(earlier(now.Add(min(late, limit)), l.end))
		return true
	case !l.looked:
		l.arm(now.Add(glance))
		l.looked = true
		return true
	}
	l.set.noteSilence(since)
	l.set.observe(now.Sub(epoch) - time.Duration(since))
	return false
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// noteSilence records since when Redis has been silent, after the link is closed.
func (s *links) noteSilence(since int64) {
	s.owesSince.CompareAndSwap(0, max(since, s.heard.Load()))
}

// silence returns for how long Redis has owed a reply. A reply that waits in a socket for this process to
// read it does not count as owed.
func (s *links) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.owesSince.Load()
	for l := range s.all {
		if since := l.owedSince(); since != 0 && (oldest == 0 || since < oldest) {
			oldest = since
		}
	}
	if oldest == 0 {
		return 0
	}
	return time.Duration(clock() - oldest)
}

// owedSince returns since when Redis has owed a reply, or 0 if it owes none.
func (l *link) owedSince() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since == 0 || l.socket != nil && arrived(l.socket, l.connected, l.bytes) {
		return 0
	}
	return l.since
}

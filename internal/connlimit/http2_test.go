package connlimit

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/net/http2"

	"github.com/penstock-io/penstock/internal/certtest"
)

// A recordedConn is a connection on which the client has sent everything.
type recordedConn struct {
	fakeConn
	sent *bytes.Reader
}

func (c *recordedConn) Read(p []byte) (int, error)  { return c.sent.Read(p) }
func (c *recordedConn) Write(p []byte) (int, error) { return len(p), nil }

type framesOf func(*http2.Framer)

func (f framesOf) bytes() []byte {
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	framer.AllowIllegalWrites = true
	f(framer)
	return b.Bytes()
}

// An http2Stand is a bounded listener whose clients have sent everything.
type http2Stand struct {
	t *testing.T
	*HTTP2Listener
	from   chan net.Conn
	resets int
}

func newHTTP2Stand(t *testing.T, most int64) *http2Stand {
	s := &http2Stand{t: t, from: make(chan net.Conn, 1)}
	s.HTTP2Listener = NewHTTP2(New(&fakeListener{s.from, make(chan struct{})}, Options{Max: 100}), HTTP2Options{
		MaxBytes: most, Reset: func(closed int, _ netip.Prefix, _ int64) { s.resets += closed },
	})
	return s
}

// connect returns an accepted connection that has not been read.
func (s *http2Stand) connect(from string, sends framesOf) (*recordedConn, *http2Conn) {
	s.t.Helper()
	c := &recordedConn{fakeConn{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, bytes.NewReader(append([]byte(http2Preface), sends.bytes()...))}
	s.from <- c
	accepted, err := s.Accept()
	if err != nil {
		s.t.Fatal(err)
	}
	return c, accepted.(*http2Conn)
}

// read reads in pieces until the end.
func (c *http2Conn) read(piece int) {
	for p := make([]byte, piece); ; {
		if _, err := c.Read(p); err != nil {
			return
		}
	}
}

func (s *http2Stand) idleConns() int { return s.Listener.(*Listener).idle.len() }

func TestHTTP2CountsRequestsUnderWay(t *testing.T) {
	for _, piece := range []int{1, 7, 9, 100, 1 << 20} {
		s := newHTTP2Stand(t, 1<<20)
		_, c := s.connect("192.0.2.1:1", func(f *http2.Framer) {
			f.WriteSettings()
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 50), EndHeaders: true})
			f.WriteData(1, false, make([]byte, 100))
			f.WriteData(1, false, make([]byte, 1025))
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: make([]byte, 50)})
			f.WriteContinuation(3, true, make([]byte, 70))
			f.WriteData(3, true, make([]byte, 5000))
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: make([]byte, 50), EndHeaders: true})
			f.WriteRSTStream(5, http2.ErrCodeCancel)
			f.WriteData(5, false, make([]byte, 100)) // too late
			f.WriteWindowUpdate(1, 1)
			f.WritePing(false, [8]byte{})
		})
		if s.idleConns() != 0 {
			t.Error("idle before the first frame")
		}
		c.read(piece)
		first, second := int64(streamCost+frameCost+50+frameCost+100+frameCost+4<<10), int64(streamCost+frameCost+50+frameCost+70+frameCost+16<<10)
		if got := s.bytes.Load(); got != first+second || len(c.streams) != 2 {
			t.Errorf("read by %d: %d bytes in %d streams are counted, want %d in 2", piece, got, len(c.streams), first+second)
		}
		answer := framesOf(func(f *http2.Framer) {
			f.WriteSettingsAck()
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 20), EndHeaders: true})
			f.WriteData(1, false, make([]byte, 100))
		}).bytes()
		end := framesOf(func(f *http2.Framer) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 20), EndHeaders: true, EndStream: true})
		}).bytes()
		for _, p := range [][]byte{answer[:15], answer[15:], end[:8]} {
			c.Write(p)
		}
		if got := s.bytes.Load(); got != first+second || s.idleConns() != 0 {
			t.Errorf("a request that is not answered counts no longer: %d bytes, want %d", got, first+second)
		}
		c.Write(end[8:])
		c.Write(framesOf(func(f *http2.Framer) { f.WriteRSTStream(1, http2.ErrCodeNo) }).bytes())
		if got := s.bytes.Load(); got != second {
			t.Errorf("after an answer: %d bytes, want %d", got, second)
		}
		c.Write(framesOf(func(f *http2.Framer) { f.WriteRSTStream(3, http2.ErrCodeNo) }).bytes())
		if got := s.bytes.Load(); got != 0 || s.idleConns() != 1 {
			t.Errorf("after all answers: %d bytes, %d idle connections, want 0 and 1", got, s.idleConns())
		}
	}
}

// A connection without requests is idle as soon as the client has sent the HTTP/2 preface.
func TestHTTP2Idle(t *testing.T) {
	s := newHTTP2Stand(t, 1<<20)
	_, c := s.connect("192.0.2.1:1", func(f *http2.Framer) { f.WriteSettings() })
	c.read(100)
	if s.idleConns() != 1 {
		t.Error("not idle")
	}
	c.Close()
	if s.idleConns() != 0 || len(s.conns) != 0 {
		t.Error("a closed connection is remembered")
	}
}

// post is an unfinished request.
func post(size int) framesOf {
	return func(f *http2.Framer) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 50), EndHeaders: true})
		for range size / (16 << 10) {
			f.WriteData(1, false, make([]byte, 16<<10))
		}
	}
}

// The client that holds most loses connections first, the largest of them first, until there is some room.
func TestHTTP2ClosesTheLargestClient(t *testing.T) {
	s := newHTTP2Stand(t, 1<<20)
	alone, c := s.connect("192.0.2.1:1", post(320<<10)) // the largest connection, not the largest client
	c.read(1 << 20)
	var many []*recordedConn
	for i, size := range []int{160 << 10, 192 << 10, 160 << 10} {
		conn, c := s.connect(netip.AddrPortFrom(netip.MustParseAddr("2001:db8::1"), uint16(i+1)).String(), post(size))
		c.read(1 << 20)
		many = append(many, conn)
	}
	last, c := s.connect("192.0.2.2:1", post(192<<10))
	c.read(16 << 10)
	if alone.closed.Load() || many[0].closed.Load() || !many[1].closed.Load() || many[2].closed.Load() || last.closed.Load() {
		t.Errorf("closed: %t %t %t %t %t", alone.closed.Load(), many[0].closed.Load(), many[1].closed.Load(), many[2].closed.Load(), last.closed.Load())
	}
	if got := s.bytes.Load(); s.resets != 1 || got > 1<<20 || got < 512<<10 {
		t.Errorf("%d connections were closed, %d bytes are left", s.resets, got)
	}
	for c := range s.conns {
		c.Close()
	}
	if got := s.bytes.Load(); got != 0 {
		t.Errorf("%d bytes are counted of nobody", got)
	}
}

// A listener that terminates TLS knows the frames of its connections, and their clients.
func TestHTTP2OverTLS(t *testing.T) {
	ca := certtest.NewAuthority(t)
	pair := ca.Issue(t, "localhost")
	own, err := tls.LoadX509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	bounded := New(below, Options{Max: 100})
	l := NewHTTP2(bounded, HTTP2Options{
		MaxBytes: 1 << 20, TLS: &tls.Config{Certificates: []tls.Certificate{own}}, Refused: func(net.Addr, error) { refused++ },
	})
	defer l.Close()
	// exchange lets a client send and close, and the server read all of it.
	exchange := func(client func(net.Conn)) *http2Conn {
		t.Helper()
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			client(conn)
		}()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		accepted.(*http2Conn).read(1 << 10)
		<-done
		conn.Close()
		return accepted.(*http2Conn)
	}
	c := exchange(func(conn net.Conn) {
		secure := tls.Client(conn, ca.Client(t))
		_, _ = secure.Write(append([]byte(http2Preface), framesOf(func(f *http2.Framer) { // the server notices if not
			f.WriteSettings()
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 50), EndHeaders: true})
		}).bytes()...))
		secure.Close()
	})
	if want := int64(streamCost + frameCost + 50); c.held() != want || l.bytes.Load() != want {
		t.Errorf("%d bytes are counted, want %d", c.held(), want)
	}
	c.end(1)
	if bounded.idle.len() != 1 || !Admitted(c) {
		t.Error("the listener below does not know the connection")
	}
	c.Close()
	if refused != 0 {
		t.Error("a good handshake counts as refused")
	}
	exchange(func(conn net.Conn) {
		_, _ = conn.Write([]byte(http2Preface)) // not TLS
		conn.Close()
	}).Close()
	if refused != 1 {
		t.Errorf("%d failed handshakes are told, want 1", refused)
	}
}

package connlimit

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// A fakeListener hands out connections from addresses of the test's choosing.
type fakeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error   { close(l.closed); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

type fakeConn struct {
	net.Conn
	from   net.Addr
	closed atomic.Bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.from }
func (c *fakeConn) Close() error         { c.closed.Store(true); return nil }

// A testListener is a bounded listener that accepts connections.
type testListener struct {
	t *testing.T
	*Listener
	from     *fakeListener
	accepted chan net.Conn
	refused  int
}

func newStand(t *testing.T, o Options) *testListener {
	s := &testListener{t: t, from: &fakeListener{make(chan net.Conn), make(chan struct{})}, accepted: make(chan net.Conn, 100)}
	o.Refused = func(netip.Prefix) { s.refused++ }
	s.Listener = New(s.from, o)
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				close(s.accepted)
				return
			}
			s.accepted <- c
		}
	}()
	return s
}

// dial returns the connection and what was accepted: nil if it was refused.
func (s *testListener) dial(from string) (*fakeConn, net.Conn) {
	c := &fakeConn{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	go func() {
		select {
		case s.from.conns <- c:
		case <-s.from.closed:
		}
	}()
	synctest.Wait()
	select {
	case accepted := <-s.accepted:
		return c, accepted
	default:
		return c, nil
	}
}

func (s *testListener) mustDial(from string) (*fakeConn, net.Conn) {
	s.t.Helper()
	c, accepted := s.dial(from)
	if accepted == nil {
		s.t.Fatalf("%s is not accepted", from)
	}
	return c, accepted
}

func TestPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		proxy := netip.MustParseAddr("10.0.0.1")
		s := newStand(t, Options{Max: 100, PerClient: 2, Exempt: func(a netip.Addr) bool { return a == proxy }})
		defer s.Close()
		for _, same := range [][3]string{
			{"192.0.2.1:1", "192.0.2.1:2", "[::ffff:192.0.2.1]:3"},
			{"[2001:db8::1]:1", "[2001:db8::ffff:2]:1", "[2001:db8:0:0:3::]:3"},
		} {
			s.mustDial(same[0])
			_, second := s.mustDial(same[1])
			if third, accepted := s.dial(same[2]); accepted != nil || !third.closed.Load() {
				t.Errorf("a third connection of %s is accepted", same[0])
			}
			second.Close()
			second.Close() // it counts once
			s.mustDial(same[2])
			if _, accepted := s.dial(same[0]); accepted != nil {
				t.Errorf("one connection of %s was closed, two more are accepted", same[0])
			}
		}
		s.mustDial("192.0.2.2:1")
		s.mustDial("[2001:db8:0:1::1]:1")
		for range 10 {
			s.mustDial("10.0.0.1:1")
		}
		if s.refused != 4 {
			t.Errorf("told of %d refused connections, want 4", s.refused)
		}
	})
}

// A client that has used up its share gets another connection in exchange for an idle one.
func TestIdleConnectionOfClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 100, PerClient: 2})
		defer s.Close()
		first, a := s.mustDial("192.0.2.1:1")
		second, b := s.mustDial("192.0.2.1:2")
		other, c := s.mustDial("192.0.2.2:1")
		for _, conn := range []net.Conn{c, a, b} {
			s.ConnState(conn, http.StateActive)
			s.ConnState(conn, http.StateIdle)
		}
		s.ConnState(a, http.StateActive)
		s.mustDial("192.0.2.1:3")
		if first.closed.Load() || !second.closed.Load() || other.closed.Load() {
			t.Error("another than the idle connection of the client was closed")
		}
		if _, accepted := s.dial("192.0.2.1:4"); accepted != nil {
			t.Error("the client has more than its share")
		}
		a.Close()
		if len(s.clients) != 2 {
			t.Errorf("%d clients are remembered", len(s.clients))
		}
	})
}

// A full listener closes the connection that has been idle longest, or the next one that becomes idle.
func TestFullListenerClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 3})
		first, a := s.mustDial("192.0.2.1:1")
		second, b := s.mustDial("192.0.2.1:2")
		third, c := s.mustDial("192.0.2.1:3")
		s.ConnState(c, http.StateActive)
		if waits, accepted := s.dial("192.0.2.2:1"); accepted != nil || waits.closed.Load() {
			t.Fatal("a full listener accepts, or closes what could wait")
		}
		s.ConnState(b, http.StateIdle)
		synctest.Wait()
		if first.closed.Load() || !second.closed.Load() || third.closed.Load() || len(s.accepted) != 1 {
			t.Error("the connection that became idle is not closed for the one that waits")
		}
		<-s.accepted
		s.ConnState(c, http.StateIdle)
		synctest.Wait()
		if !third.closed.Load() {
			t.Error("kept an idle connection though the listener is full")
		}
		a.Close()
		s.Close()
		if _, open := <-s.accepted; open {
			t.Error("accepted after the end")
		}
	})
}

func TestShare(t *testing.T) {
	for _, test := range []struct{ most, percent, want int }{{0, 50, 0}, {100, 100, 0}, {100, 50, 50}, {3, 50, 1}, {1, 1, 1}} {
		if got := Share(test.most, test.percent); got != test.want {
			t.Errorf("%d %% of %d: %d, want %d", test.percent, test.most, got, test.want)
		}
	}
}

package connlimit

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
)

// A full listener accepts connections for health checks. If the reserve is full too, it closes the oldest, or one of
// a client that has used up its share.
func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 3, PerClient: 2, Reserve: 2})
		defer s.Close()
		_, a := s.mustDial("192.0.2.1:1")
		_, b := s.mustDial("192.0.2.1:2")
		for _, c := range []*conn{a.(*conn), b.(*conn)} {
			if !Admitted(c) {
				t.Error("there is room, but a connection is not admitted")
			}
		}
		greedy, c := s.mustDial("192.0.2.1:3")
		if Admitted(c) {
			t.Error("a client has more than its share")
		}
		if s.refused != 1 {
			t.Errorf("told of %d refused connections, want 1", s.refused)
		}
		s.mustDial("192.0.2.2:1")
		first, d := s.mustDial("192.0.2.3:1")
		if Admitted(d) || first.closed.Load() || greedy.closed.Load() {
			t.Error("a full listener admits, or closes what has room on the reserve")
		}
		second, _ := s.mustDial("192.0.2.4:1")
		if !greedy.closed.Load() || first.closed.Load() {
			t.Error("the connection beyond a client's share was not closed first")
		}
		s.mustDial("192.0.2.5:1")
		if !first.closed.Load() || second.closed.Load() {
			t.Error("the oldest connection of the reserve was not closed")
		}
		if Admitted(d) {
			t.Error("a closed connection is admitted")
		}
		if s.open != 3 || s.reserve.Len() != 2 {
			t.Errorf("%d connections and %d on the reserve, want 3 and 2", s.open, s.reserve.Len())
		}
	})
}

// A client that keeps opening connections does not push out others.
func TestReserveOfManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 1, Reserve: 3})
		defer s.Close()
		s.mustDial("192.0.2.1:1")
		probe, _ := s.mustDial("192.0.2.2:1")
		var flood []*fakeConn
		for range 10 {
			c, _ := s.mustDial("192.0.2.1:2")
			flood = append(flood, c)
		}
		if probe.closed.Load() {
			t.Error("a client was pushed out by one that has more connections")
		}
		for i, c := range flood {
			if c.closed.Load() != (i < 8) {
				t.Errorf("connection %d of 10: closed %t", i, c.closed.Load())
			}
		}
	})
}

// Requests on the reserve get the room of connections that are closed or become idle, in order of arrival.
func TestReserveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 2, PerClient: 2, Reserve: 4})
		defer s.Close()
		_, a := s.mustDial("192.0.2.1:1")
		_, b := s.mustDial("192.0.2.1:2")
		wait := func(from string) (*conn, chan bool) {
			_, c := s.mustDial(from)
			result := make(chan bool, 1)
			go func() { result <- c.(*conn).await(t.Context()) }()
			synctest.Wait()
			return c.(*conn), result
		}
		if _, greedy := wait("192.0.2.1:3"); len(greedy) != 1 || <-greedy {
			t.Error("a request beyond a client's share waits or is admitted")
		}
		first, one := wait("192.0.2.2:1")
		_, two := wait("192.0.2.3:1")
		last, three := wait("192.0.2.4:1")
		if len(one)+len(two)+len(three) > 0 {
			t.Fatal("a full listener has admitted requests, or refused those that can wait")
		}
		s.ConnState(a, http.StateIdle)
		if synctest.Wait(); len(one) != 1 || !<-one || len(two) != 0 {
			t.Error("the room of an idle connection is not the first's")
		}
		b.Close()
		if synctest.Wait(); len(two) != 1 || !<-two || len(three) != 0 {
			t.Error("the room of a closed connection is not the second's")
		}
		last.Close()
		if synctest.Wait(); len(three) != 1 || <-three {
			t.Error("a request waits on a closed connection")
		}
		first.Close()
		if s.open != 1 || s.reserve.Len() != 1 {
			t.Errorf("%d connections and %d on the reserve, want 1 and 1", s.open, s.reserve.Len())
		}
	})
}

func TestReserveGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Max: 1, Reserve: 1})
		defer s.Close()
		_, a := s.mustDial("192.0.2.1:1")
		_, c := s.mustDial("192.0.2.1:2")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if c.(*conn).await(ctx) {
			t.Error("a request that has ended is admitted")
		}
		a.Close()
		if !Admitted(c) {
			t.Error("there is room, but a connection is not admitted")
		}
	})
}

package redisstore

import (
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/rawconn"
)

// pair returns a link with the given limit, and the server's end of its connection.
func pair(t *testing.T, limit time.Duration) (*link, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	set := newLinks(func() time.Duration { return limit }, func(time.Duration) {}, time.Minute)
	conn, err := set.dialer(nil, false)(t.Context(), listener.Addr().String(), &net.Dialer{KeepAlive: keepAliveIdle}, nil)
	if err != nil {
		t.Fatal(err)
	}
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
		if len(set.all) > 0 {
			t.Error("a closed link is still waited for")
		}
	})
	return conn.(*link), server
}

// arrives waits until something is in the link's socket.
func arrives(t *testing.T, l *link) {
	t.Helper()
	if runtime.GOOS != "linux" {
		time.Sleep(100 * time.Millisecond)
		return
	}
	for end := time.Now().Add(time.Minute); !arrived(l.socket, true, l.bytes); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing arrives")
		}
	}
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Error(err)
	}
}

func expectRead(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	b := make([]byte, 100)
	n, err := conn.Read(b)
	if string(b[:n]) != want || err != nil {
		t.Errorf("read %q, %v; want %q", b[:n], err, want)
	}
}

// A process that gets no CPU until after the deadline still sends its command and uses the reply.
func TestDeadlineOverWhileNotRunning(t *testing.T) {
	const limit = 10 * time.Millisecond
	l, server := pair(t, limit)
	for range 3 {
		l.SetDeadline(time.Now().Add(time.Hour))
		time.Sleep(2 * limit)
		send(t, l, "command")
		expectRead(t, server, "command")
		send(t, server, "reply")
		arrives(t, l)
		time.Sleep(2 * limit)
		expectRead(t, l, "reply")
	}
}

// The underlying connection, without the link, does neither.
func TestConnectionsAloneExpire(t *testing.T) {
	l, server := pair(t, time.Millisecond)
	bare := l.Conn
	send(t, server, "reply")
	arrives(t, l)
	bare.SetDeadline(time.Now().Add(-time.Millisecond))
	if _, err := bare.Write([]byte("command")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a late write: %v", err)
	}
	if n, err := bare.Read(make([]byte, 100)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a late read: %d bytes, %v", n, err)
	}
}

// A silent server gets the whole limit, from when it was asked, but not more than the client's own
// deadline.
func TestSilenceEndsARead(t *testing.T) {
	const limit = 50 * time.Millisecond
	l, server := pair(t, limit)
	l.SetDeadline(time.Now().Add(time.Hour))
	time.Sleep(limit) // not the server's fault
	asked := time.Now()
	send(t, l, "command")
	expectRead(t, server, "command")
	if n, err := l.Read(make([]byte, 100)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(asked) < limit {
		t.Errorf("%d bytes after %v, %v", n, time.Since(asked), err)
	}
	if silent := l.set.silence(); silent < limit {
		t.Errorf("silent for %v, want at least %v", silent, limit)
	}
	l.Close()
	if silent := l.set.silence(); silent < limit {
		t.Errorf("silent for %v once the link is closed, want at least %v", silent, limit)
	}

	l, _ = pair(t, time.Hour)
	l.SetDeadline(time.Now().Add(limit))
	send(t, l, "command")
	if n, err := l.Read(make([]byte, 100)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes after the client's deadline, %v", n, err)
	}
}

// Redis owes a reply from when the command was written until the reply is in the socket, even if this
// process has not read it yet.
func TestSilence(t *testing.T) {
	l, server := pair(t, time.Hour)
	owes := func(when string, want bool) {
		t.Helper()
		if silent := l.set.silence(); silent > 0 != want {
			t.Errorf("%s: silent for %v", when, silent)
		}
	}
	owes("connected", false)
	send(t, l, "command")
	owes("asked", true)
	send(t, server, "rep")
	if runtime.GOOS == "linux" { // other systems cannot tell
		arrives(t, l)
		owes("answered", false)
	}
	expectRead(t, l, "rep")
	owes("read", false)
	send(t, server, "ly")
	expectRead(t, l, "ly")
	send(t, l, "command")
	owes("asked again", true)
	l.set.noteSilence(1)
	send(t, server, "reply")
	expectRead(t, l, "reply")
	owes("read again", false)
}

// If a reply is read while the command is still being written, as on a pipelined connection, nothing is
// owed.
func TestReplyOvertakesTheWriter(t *testing.T) {
	l, server := pair(t, time.Hour)
	meanwhile := func() {
		send(t, server, "reply")
		expectRead(t, l, "reply")
	}
	l.Socket = rawconn.Socket{Conn: overtakenStore{l.Conn, meanwhile}}
	send(t, l, "command")
	if silent := l.set.silence(); silent != 0 {
		t.Errorf("silent for %v after the reply", silent)
	}
}

type overtakenStore struct {
	net.Conn
	meanwhile func()
}

func (o overtakenStore) Write(b []byte) (int, error) {
	n, err := o.Conn.Write(b)
	o.meanwhile()
	return n, err
}

// A wait continues while Redis owes nothing, has not had its limit, or while this process was not running.
// It ends eventually.
func TestVigil(t *testing.T) {
	const limit = time.Minute
	for name, test := range map[string]struct {
		age, late, silent time.Duration
		more              bool
	}{
		"Redis owes nothing":             {age: limit, more: true},
		"Redis was asked late":           {age: limit, silent: limit / 2, more: true},
		"Redis is silent":                {age: limit, silent: limit},
		"Redis has been silent for long": {age: limit, silent: 5 * limit},
		"a request that is new":          {age: limit / 2, silent: 5 * limit, more: true},
		"the timer fired late":           {age: 2 * limit, late: limit, silent: 2 * limit, more: true},
		"later than all patience":        {age: 12 * limit, late: limit},
	} {
		now := time.Now()
		set := newLinks(nil, func(time.Duration) {}, 0)
		if test.silent > 0 {
			set.owesSince.Store(clock() - int64(test.silent))
		}
		since := now.Add(-test.age)
		v := replyWait{links: set, since: since, due: now.Add(-test.late), end: since.Add(11 * limit)}
		rest := v.extend(limit)
		if rest > 0 != test.more {
			t.Errorf("%s: %v more", name, rest)
		}
		if rest > limit {
			t.Errorf("%s: %v more, which is more than %v", name, rest, limit)
		}
	}
}

func TestLimitFollowsReplies(t *testing.T) {
	const timeout, ms = 50 * time.Millisecond, time.Millisecond
	var l limit
	l.max.Store(int64(timeout))
	now := int64(1000)
	expect := func(when string, want time.Duration) {
		t.Helper()
		if got := l.at(now); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	replies := func(n int, took time.Duration) {
		for range n {
			l.observeAt(now, took)
		}
	}
	expect("nothing is known", timeout)
	replies(limitReplies-1, ms/5)
	expect("little is known", timeout)
	replies(1, ms/5)
	expect("quick", limitFloor)
	replies(1, 2*ms)
	expect("one was slower", 16*ms)
	now++
	expect("and is remembered", 16*ms)
	replies(limitReplies, ms/5)
	expect("for one more window", 16*ms)
	now++
	replies(1, ms/5)
	expect("and then forgotten", limitFloor)
	replies(1, timeout)
	expect("one did not come", timeout)
	now += 2
	expect("nothing is known any more", timeout)
	replies(limitReplies, ms/5)
	expect("quick again", limitFloor)
	now += 100
	expect("after a long silence", timeout)

	for timeout, floor := range map[time.Duration]time.Duration{ms: ms, 10 * ms: 10 * ms, time.Second: 200 * ms} {
		l.max.Store(int64(timeout))
		now += 2
		replies(limitReplies, 1)
		expect("with another timeout", floor)
	}
}

package redisstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// fails takes once and returns the error, which must say that the store was unavailable.
func fails(t *testing.T, store *redisstore.Store, ctx context.Context, who storage.Subject, m *algorithm.Meter) error {
	t.Helper()
	var out storage.Outcome
	err := store.Take(ctx, one(0, who, charge(m, 1)), &out)
	if !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, algorithm.ErrInvalid) || out.Allowed {
		t.Fatalf("%v: allowed %v, error %v; want a denial by ErrUnavailable", m, out.Allowed, err)
	}
	return err
}

// recovers polls until requests pass again.
func recovers(t *testing.T, store *redisstore.Store, m *algorithm.Meter) {
	t.Helper()
	await(t, "calls to pass again", func() bool {
		var out storage.Outcome
		return store.Take(t.Context(), one(0, stranger(), charge(m, 1)), &out) == nil && out.Allowed
	})
}

// A server without memory refuses what it would have to store, and stores no part of it.
func TestOutOfMemory(t *testing.T) {
	server, store := serve(t)
	for _, m := range eachKind(algorithm.MaxWindow) {
		who := stranger()
		take(t, store, one(0, who, charge(m, 1)))
		before := snapshot(t, server.Addr, who)
		ask(t, server.Addr, "CONFIG", "SET", "maxmemory", "1")
		for range 3 {
			if err := fails(t, store, t.Context(), who, m); !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%v: error %v does not say OOM", m, err)
			}
		}
		newcomer := stranger()
		fails(t, store, t.Context(), newcomer, m)
		ask(t, server.Addr, "CONFIG", "SET", "maxmemory", "0")
		if after := snapshot(t, server.Addr, who); len(after) != 1 || after[keyOf(who, m)] != before[keyOf(who, m)] {
			t.Errorf("%v: refused calls changed the state from %q to %q", m, before, after)
		}
		expect(t, m.String()+": keys of a newcomer", len(keysOf(t, server.Addr, newcomer)), 0)
		recovers(t, store, m)
		expect(t, m.String()+": used", int(used(t, store, 0, who, m)), 1)
	}
}

// A replica refuses to write: an error, until it is a master again.
func TestReadOnly(t *testing.T) {
	server, store := serve(t)
	m, who := spacious(), stranger()
	hit(t, store, 0, who, m)
	ask(t, server.Addr, "REPLICAOF", "127.0.0.1", "1") // an address without a server
	for range 3 {
		if err := fails(t, store, t.Context(), who, m); !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("error %v does not say READONLY", err)
		}
	}
	ask(t, server.Addr, "REPLICAOF", "NO", "ONE")
	recovers(t, store, m)
	expect(t, "used", int(used(t, store, 0, who, m)), 1)
}

// A server that dies and comes back: errors, never an invented answer, then answers.
func TestKillAndRestart(t *testing.T) {
	server, store := serve(t)
	m := spacious()
	for range 3 {
		recovers(t, store, m)
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			fails(t, store, t.Context(), stranger(), m)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	recovers(t, store, m)
}

// A server that accepts and never answers: callers return by their own deadline or the store's.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := spacious()
	patient := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: time.Minute})
	hasty := dialHasty(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: 200 * time.Millisecond})
	recovers(t, patient, m)
	recovers(t, hasty, m)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context()) // without a deadline
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := fails(t, patient, ctx, stranger(), m); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's cancellation: error %v does not wrap Canceled", err)
	}
	for range 5 { // the later ones are never sent: all runs are in flight
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := fails(t, patient, ctx, stranger(), m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: error %v does not wrap DeadlineExceeded", err)
		}
		cancel()
	}
	for range 3 {
		if err := fails(t, hasty, t.Context(), stranger(), m); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the store's own deadline: error %v does not wrap DeadlineExceeded", err)
		}
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	recovers(t, patient, m)
	recovers(t, hasty, m)
}

// A caller keeps its own deadline, even if it shares a run with others or sends it for them.
func TestDeadlinesInCompany(t *testing.T) {
	server := redistest.Start(t)
	store := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: time.Hour})
	m := spacious()
	for range 20 {
		recovers(t, store, m)
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		var back atomic.Int64
		const callers = 64
		go atOnce(callers, func(int) {
			defer back.Add(1)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			var out storage.Outcome
			if err := store.Take(ctx, one(0, stranger(), charge(m, 1)), &out); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v does not wrap DeadlineExceeded", err)
			}
		})
		await(t, "all callers to come back while the server is silent", func() bool { return back.Load() == callers })
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
	}
}

// A request whose context has already ended is not sent.
func TestCancelledBefore(t *testing.T) {
	_, store := serve(t)
	m, who := spacious(), stranger()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fails(t, store, ctx, who, m); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v does not wrap Canceled", err)
	}
	expect(t, "used", int(used(t, store, 0, who, m)), 0)
}

// lossyConn is a connection that, once armed, loses the next reply to a script and then itself. The server has
// executed what it was sent. Others may be armed too, and read a reply to something else.
type lossyConn struct {
	net.Conn
	armed *atomic.Bool
	asked atomic.Bool // a script has been sent since
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(b, []byte("EVALSHA")) {
		c.asked.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.asked.Load() && c.armed.CompareAndSwap(true, false) {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// A charge whose reply was lost is not sent again: it has been taken.
func TestLostReplyIsNotRetried(t *testing.T) {
	server := redistest.Start(t)
	var armed atomic.Bool
	store := dial(t, redisstore.Options{
		Addresses: []string{server.Addr},
		Dial: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			return &lossyConn{Conn: conn, armed: &armed}, err
		},
	})
	m := spacious()
	recovers(t, store, m)
	honest, retrying := stranger(), stranger()
	const rounds = 20
	for range rounds {
		armed.Store(true)
		fails(t, store, t.Context(), honest, m)
		recovers(t, store, m)
	}
	expect(t, "charges of calls sent once each", int(used(t, store, 0, honest, m)), rounds)

	// A client that retries after such an error is charged twice: the test above would see it.
	for range rounds {
		armed.Store(true)
		fails(t, store, t.Context(), retrying, m)
		await(t, "a retry to pass", func() bool {
			var out storage.Outcome
			return store.Take(t.Context(), one(0, retrying, charge(m, 1)), &out) == nil
		})
	}
	if n := used(t, store, 0, retrying, m); n < 2*rounds {
		t.Errorf("%d calls, each tried again, were charged %d times: the replies were not lost after the charge", rounds, n)
	}
}

// After a restart of Redis, at most one request fails for each connection that was in use, and none for
// idle connections: the first failure triggers a check of them.
func TestIdleConnectionsAreChecked(t *testing.T) {
	server, store := serve(t)
	m := spacious()
	grow := func() {
		for store.Idle() < 8 {
			atOnce(64, func(int) { recovers(t, store, m) })
		}
	}
	for range 3 {
		store.FastPace()
		grow()
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		fails(t, store, t.Context(), stranger(), m)
		await(t, "the connections to be checked", func() bool { return store.Idle() == 0 })
		for range 100 {
			hit(t, store, 0, stranger(), m)
		}
	}
}

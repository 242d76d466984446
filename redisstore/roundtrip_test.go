package redisstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// A wiretap records what a store's connections send.
type wiretap struct {
	mu   sync.Mutex
	sent [][]byte // one per connection
}

type tappedConn struct {
	net.Conn
	tap *wiretap
	i   int
}

func (w *wiretap) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, nil)
	return &tappedConn{conn, w, len(w.sent) - 1}, err
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.tap.mu.Lock()
	c.tap.sent[c.i] = append(c.tap.sent[c.i], b...)
	c.tap.mu.Unlock()
	return c.Conn.Write(b)
}

// commands returns the names of the commands sent since the last call, without HELLO, which opens a
// connection, and PING, with which the client checks an idle one.
func (w *wiretap) commands(t testing.TB) (names []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, b := range w.sent {
		w.sent[i] = nil
		line := func(kind byte) int {
			head, rest, _ := bytes.Cut(b, []byte("\r\n"))
			n, err := strconv.Atoi(string(head[1:]))
			if err != nil || head[0] != kind {
				t.Fatalf("%q is no command", b)
			}
			b = rest
			return n
		}
		for len(b) > 0 {
			for arg := range line('*') {
				length := line('$')
				if name := string(b[:length]); arg == 0 && name != "PING" && name != "HELLO" {
					names = append(names, name)
				}
				b = b[length+2:]
			}
		}
	}
	return names
}

// Whatever guards a request has, it takes one round trip; so does every later operation on it.
func TestGuardedCallsTakeOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	var tap wiretap
	store := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Dial: tap.dial})
	once := func(what string, do func()) {
		t.Helper()
		tap.commands(t)
		do()
		if sent := tap.commands(t); !slices.Equal(sent, []string{"EVALSHA"}) {
			t.Errorf("%s: sent %q, want one EVALSHA", what, sent)
		}
	}
	// The texts of the scripts are sent once.
	warm := guarded(0, stranger(), charge(spacious(), 1))
	take(t, store, warm)
	settle(t, store, settlement(warm, storage.Release))

	meters := eachKind(time.Hour)
	for _, now := range clocks {
		for bits := range 32 {
			is := func(bit int) bool { return bits&bit != 0 }
			ticket := one(now, stranger())
			g := &ticket.Groups[0]
			for _, m := range meters {
				c := charge(m, 1)
				c.Overdraw = is(1) && m.Kind != algorithm.KindLeaky && m.Kind != algorithm.KindLeases
				if !is(2) || m.Returns() == nil {
					g.Charges = append(g.Charges, c)
				}
			}
			if is(2) {
				g.Reserve = time.Minute
			}
			if is(4) {
				g.Penalty = penaltyOf(2, time.Minute, time.Hour)
			}
			if is(8) {
				g.Dedup, g.Call = dedupOf(time.Hour), newCallID()
			}
			if is(16) { // a second subject, and a shadow rule
				ticket.Groups = append(ticket.Groups, storage.Group{Subject: stranger(), Charges: g.Charges[:1]},
					storage.Group{Subject: stranger(), Charges: g.Charges[:2], Alone: true, Penalty: g.Penalty})
				g = &ticket.Groups[0]
			}
			for call := range 8 { // first, duplicate, denied, a strike, banned
				once(fmt.Sprintf("call %d of a ticket with guards %05b", call, bits), func() { take(t, store, ticket) })
			}
			if !is(2) {
				continue
			}
			for _, verb := range []storage.Verb{storage.Renew, storage.Settle, storage.Settle} {
				once(fmt.Sprintf("%v", verb), func() { settle(t, store, settlement(ticket, verb)) })
			}
			if is(4) {
				once("ban", func() {
					if _, err := store.Ban(t.Context(), &storage.Ban{Now: now, Subject: g.Subject, Penalty: g.Penalty, Length: time.Minute}); err != nil {
						t.Error(err)
					}
				})
			}
			tap.commands(t)
			if err := store.Reset(t.Context(), g); err != nil {
				t.Error(err)
			}
			sent := tap.commands(t)
			if slices.Sort(sent); !slices.Equal(sent, []string{"EVAL", "EVALSHA"}) {
				t.Errorf("reset: sent %q, want an EVALSHA, and an EVAL that tells the nodes", sent)
			}
		}
	}
	everyKeyExpires(t, server.Addr)
}

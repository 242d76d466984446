package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

// starve runs a function while the server has no free memory.
func starve(t testing.TB, addr string, do func()) {
	t.Helper()
	ask(t, addr, "CONFIG", "SET", "maxmemory", "1")
	do()
	ask(t, addr, "CONFIG", "SET", "maxmemory", "0")
}

// allCharges returns a charge of every limit that can be reserved.
func allCharges(cost int64) (charges []algorithm.Charge) {
	for _, m := range returnable(eachKind(algorithm.MaxWindow)) {
		charges = append(charges, charge(m, cost))
	}
	return charges
}

// A server without memory refuses a guarded request as a whole, whichever of its keys would be new.
func TestOutOfMemoryGuarded(t *testing.T) {
	server, store := serve(t)
	for bits := range 16 {
		charges := allCharges(1)
		if bits&8 != 0 { // only what is kept in lists
			charges = charges[len(charges)-2:]
		}
		ticket := guarded(0, stranger(), charges...)
		g := &ticket.Groups[0]
		if bits&1 != 0 {
			g.Penalty = nil
		}
		if bits&2 != 0 {
			g.Dedup = nil
		}
		if bits&4 != 0 {
			g.Reserve = 0
		}
		for seen := range 3 { // a new subject, one with a state, a duplicate
			if seen == 1 {
				first := *ticket
				first.Groups = []storage.Group{*g}
				first.Groups[0].Call, first.Nonce = newCallID(), ticket.Nonce+1<<40
				take(t, store, &first)
			} else if seen == 2 {
				take(t, store, ticket)
			}
			before := must(dump(server.Addr, g.Subject))
			starve(t, server.Addr, func() {
				err := store.Take(t.Context(), ticket, new(storage.Outcome))
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
					t.Errorf("guards %04b, seen %d: error %v does not say OOM", bits, seen, err)
				}
			})
			if after := must(dump(server.Addr, g.Subject)); after != before {
				t.Errorf("guards %04b, seen %d: a refused call changed %q to %q", bits, seen, before, after)
			}
		}
	}
}

// Nor does it record half a strike or half a ban.
func TestOutOfMemoryStrikes(t *testing.T) {
	server, store := serve(t)
	ticket := one(0, stranger(), charge(slidingLog(1, time.Hour), 1))
	g := &ticket.Groups[0]
	g.Penalty = penaltyOf(2, time.Hour, time.Hour)
	take(t, store, ticket)
	for range 2 {
		before := must(dump(server.Addr, g.Subject))
		starve(t, server.Addr, func() {
			if err := store.Take(t.Context(), ticket, new(storage.Outcome)); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("a strike without memory: error %v", err)
			}
			if _, err := store.Ban(t.Context(), &storage.Ban{Subject: g.Subject, Penalty: g.Penalty, Length: time.Minute}); !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("a ban without memory: error %v", err)
			}
		})
		if after := must(dump(server.Addr, g.Subject)); after != before {
			t.Errorf("changed %q to %q", before, after)
		}
		take(t, store, ticket)
	}
	starve(t, server.Addr, func() { // denied as before: nothing to write
		if out := take(t, store, ticket); out.Groups[0].BannedUntil == 0 {
			t.Error("two strikes did not ban")
		}
		if err := store.Reset(t.Context(), g); err != nil {
			t.Errorf("a reset without memory: %v", err)
		}
	})
	expect(t, "keys after a reset", len(keysOf(t, server.Addr, g.Subject)), 0)
}

// A settlement is done as a whole or refused as a whole.
func TestOutOfMemorySettlement(t *testing.T) {
	server, store := serve(t)
	for _, verb := range []storage.Verb{storage.Settle, storage.Release, storage.Renew} {
		for _, cost := range []int64{0, 1, 2, 3} {
			ticket := one(0, stranger(), allCharges(2)...)
			g := &ticket.Groups[0]
			g.Reserve = time.Hour
			take(t, store, ticket)
			what := settlement(ticket, verb)
			for i := range what.Charges {
				what.Charges[i].Cost = cost
			}
			before := must(dump(server.Addr, g.Subject))
			starve(t, server.Addr, func() {
				err := store.Settle(t.Context(), what, new(storage.SettleOutcome))
				if !errors.Is(err, storage.ErrUnavailable) || !strings.Contains(err.Error(), "OOM") {
					t.Errorf("%v: error %v does not say OOM", verb, err)
				}
			})
			if after := must(dump(server.Addr, g.Subject)); after != before {
				t.Errorf("%v: a refused settlement changed %q to %q", verb, before, after)
			}
			if out := settle(t, store, what); !out.Allowed || out.Again {
				t.Errorf("%v, with memory: %+v", verb, out)
			}
		}
	}
	// A pure release needs no memory.
	ticket := one(0, stranger(), charge(algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 1, Window: time.Hour}.MustCompile(), 1))
	take(t, store, ticket)
	starve(t, server.Addr, func() {
		if out := settle(t, store, settlement(ticket, storage.Release)); !out.Allowed || out.Again {
			t.Errorf("a lease given back: %+v", out)
		}
	})
	expect(t, "keys", len(keysOf(t, server.Addr, ticket.Groups[0].Subject)), 0)
}

// A settlement whose reply was lost can be sent again, and is charged once.
func TestLostReplyOfASettlement(t *testing.T) {
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
	lose := func(do func() error) {
		t.Helper()
		armed.Store(true)
		if err := do(); !errors.Is(err, storage.ErrUnavailable) {
			t.Fatalf("a lost reply: error %v, want ErrUnavailable", err)
		}
		recovers(t, store, m)
	}
	var warm storage.Ban // the first amendment is sent with its text, after a NOSCRIPT error
	warm.Subject, warm.Penalty, warm.Length = stranger(), penaltyOf(3, time.Minute, time.Hour), time.Minute
	if _, err := store.Ban(t.Context(), &warm); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []storage.Verb{storage.Settle, storage.Release, storage.Renew} {
		for _, cost := range []int64{3, 9} { // less and more than was reserved
			ticket := one(0, stranger(), charge(m, 5))
			g := &ticket.Groups[0]
			g.Reserve = time.Minute
			take(t, store, ticket)
			what := settlement(ticket, verb)
			what.Charges[0].Cost = cost
			lose(func() error { return store.Settle(t.Context(), what, new(storage.SettleOutcome)) })
			want := map[storage.Verb]int64{storage.Settle: cost, storage.Release: 0, storage.Renew: 5}[verb]
			expect(t, fmt.Sprintf("%v: used after the first", verb), int(used(t, store, 0, g.Subject, m)), int(want))
			out := settle(t, store, what)
			if out.Again != (verb != storage.Renew) || !out.Allowed {
				t.Errorf("%v, sent again: %+v", verb, out)
			}
			expect(t, fmt.Sprintf("%v: used after the second", verb), int(used(t, store, 0, g.Subject, m)), int(want))
		}
	}
	for _, m := range lateKinds(time.Hour) {
		who := stranger()
		c := lateCharge(0, who, admittedAt(m, 2, algorithm.InstantOf(time.Now())))
		lose(func() error { return store.ChargeLate(t.Context(), c) })
		for range 2 {
			expect(t, fmt.Sprintf("%v: used after a late charge", m), int(used(t, store, 0, who, m)), 2)
			if err := store.ChargeLate(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
	lose(func() error { _, err := store.Ban(t.Context(), &warm); return err })
	if _, err := store.Ban(t.Context(), &warm); err != nil {
		t.Error(err)
	}
	lose(func() error {
		return store.Reset(t.Context(), &storage.Group{Subject: warm.Subject, Penalty: warm.Penalty})
	})
	expect(t, "keys after a reset whose reply was lost", len(keysOf(t, server.Addr, warm.Subject)), 0)
}

// Whatever is asked of a silent server, the caller returns by its deadline or the store's.
func TestSilentServerForOperators(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	patient := dial(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: time.Minute})
	hasty := dialHasty(t, redisstore.Options{Addresses: []string{server.Addr}, Timeout: 100 * time.Millisecond})
	m := spacious()
	recovers(t, patient, m)
	recovers(t, hasty, m)
	ticket := guarded(0, stranger(), charge(m, 1))
	g := &ticket.Groups[0]
	verbs := map[string]func(ctx context.Context, s *redisstore.Store) error{
		"settle": func(ctx context.Context, s *redisstore.Store) error {
			return s.Settle(ctx, settlement(ticket, storage.Renew), new(storage.SettleOutcome))
		},
		"ban": func(ctx context.Context, s *redisstore.Store) error {
			_, err := s.Ban(ctx, &storage.Ban{Subject: g.Subject, Penalty: g.Penalty, Length: time.Minute})
			return err
		},
		"reset": func(ctx context.Context, s *redisstore.Store) error { return s.Reset(ctx, g) },
		"charge late": func(ctx context.Context, s *redisstore.Store) error {
			return s.ChargeLate(ctx, lateCharge(0, g.Subject, admittedAt(m, 1, 0)))
		},
		"reservations": func(ctx context.Context, s *redisstore.Store) error {
			_, _, err := s.Reservations(ctx, 0, g.Subject, 9)
			return err
		},
		"keys": func(ctx context.Context, s *redisstore.Store) error {
			_, _, err := s.Keys(ctx, g.Subject.Tag(), "", 9)
			return err
		},
		"size": func(ctx context.Context, s *redisstore.Store) error { _, err := s.Size(ctx); return err },
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	for name, ask := range verbs {
		check := func(whose string, want, err error) {
			t.Helper()
			if !errors.Is(err, want) || !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, algorithm.ErrInvalid) {
				t.Errorf("%s, %s: error %v must wrap %v and ErrUnavailable", name, whose, err, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		check("the caller's deadline", context.DeadlineExceeded, ask(ctx, patient))
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		check("the caller's cancellation", context.Canceled, ask(ctx, patient))
		check("cancelled before", context.Canceled, ask(ctx, patient))
		check("the store's own deadline", context.DeadlineExceeded, ask(t.Context(), hasty))
		check("the store's own deadline, without a context's", context.DeadlineExceeded, ask(context.Background(), hasty))
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	recovers(t, patient, m)
	recovers(t, hasty, m)
	g.Subject = stranger() // an operation that timed out may still have changed the other one
	take(t, patient, ticket)
	for _, name := range []string{"settle", "charge late", "reservations", "keys", "size", "ban", "reset"} {
		if err := verbs[name](t.Context(), patient); err != nil {
			t.Errorf("%s, when the server answers again: %v", name, err)
		}
	}
}

// A caller that gives up on a settlement does not close a connection that others use.
func TestHastySettlementsHarmNobody(t *testing.T) {
	_, store := serve(t)
	who, m := stranger(), spacious()
	hit(t, store, 0, who, m)
	var gaveUp atomic.Int64
	atOnce(60, func(i int) {
		for j := range 30 {
			if i%2 == 0 {
				hit(t, store, 0, who, m)
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*31+j*17)%700)*time.Microsecond)
			err := store.Reset(ctx, &storage.Group{Subject: stranger(), Charges: []algorithm.Charge{charge(m, 0)}})
			cancel()
			if err != nil {
				gaveUp.Add(1)
			}
		}
	})
	if gaveUp.Load() == 0 {
		t.Error("nobody gave up, so nothing was tested")
	}
	expect(t, "used", int(used(t, store, 0, who, m)), 1+30*30)
}

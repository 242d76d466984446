package redisstore_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// snapshot returns everything a subject has on the server, contents and expiry times.
func snapshot(t testing.TB, addr string, who storage.Subject) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, key := range keysOf(t, addr, who) {
		state[key] = ask(t, addr, "DUMP", key) + " until " + ask(t, addr, "PEXPIRETIME", key)
	}
	return state
}

// The two clocks that can decide a ticket: a given instant, and the server's clock.
var clocks = map[string]algorithm.Instant{"given": monday, "server": 0}

// A denied request writes nothing: nothing to store, nothing to replicate, and no later expiry.
func TestDeniedCallsWriteNothing(t *testing.T) {
	server, store := serve(t)
	for clock, now := range clocks {
		for _, m := range eachKind(algorithm.MaxWindow) {
			t.Run(fmt.Sprintf("%s/%v", clock, m), func(t *testing.T) {
				who := stranger()
				for range 3 {
					if !hit(t, store, now, who, m) {
						t.Fatal("denied below the limit")
					}
				}
				before := snapshot(t, server.Addr, who)
				if len(before) != 1 {
					t.Fatalf("keys %v, want one", before)
				}
				expect(t, "calls above the limit that pass", count(100, func(int) bool { return hit(t, store, now, who, m) }), 0)
				expect(t, "used, says a peek", int(used(t, store, now, who, m)), 3)
				if out := take(t, store, one(now, who, charge(m, algorithm.MaxCount))); out.Allowed {
					t.Error("an impossible cost passed")
				}
				if after := snapshot(t, server.Addr, who); !maps.Equal(before, after) {
					t.Errorf("state changed:\nbefore %q\nafter  %q", before, after)
				}
			})
		}
	}
}

// Nor does a peek or an impossible cost create anything for a new subject.
func TestPeeksCreateNothing(t *testing.T) {
	server, store := serve(t)
	for clock, now := range clocks {
		for _, m := range eachKind(time.Hour) {
			costs := []int64{0}
			if m.Kind != algorithm.KindLeases { // takes one, whatever the cost
				costs = append(costs, 4, algorithm.MaxCount)
			}
			for _, cost := range costs {
				who := stranger()
				take(t, store, one(now, who, charge(m, cost)))
				if keys := keysOf(t, server.Addr, who); len(keys) > 0 {
					t.Errorf("%s clock, %v, cost %d: wrote %q", clock, m, cost, keys)
				}
			}
		}
	}
}

// A request that one limit denies leaves all others unchanged, whatever their order.
func TestDeniedByOneChargesNone(t *testing.T) {
	server, store := serve(t)
	meters := eachKind(time.Hour)
	for i, spent := range meters {
		who := stranger()
		for range 3 {
			hit(t, store, monday, who, spent)
		}
		before := snapshot(t, server.Addr, who)
		ticket := one(monday, who)
		for j := range meters {
			ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(meters[(i+j)%len(meters)], 1))
		}
		out := take(t, store, ticket)
		for j, d := range out.Decisions {
			if m := meters[(i+j)%len(meters)]; d.Allowed == (m == spent) {
				t.Errorf("%v spent: %v says allowed %v", spent, m, d.Allowed)
			}
		}
		if after := snapshot(t, server.Addr, who); out.Allowed || !maps.Equal(before, after) {
			t.Errorf("%v spent: allowed %v, state before %q, after %q", spent, out.Allowed, before, after)
		}
	}
}

// Under count_denied a denied request does write, and what it writes is bounded.
func TestCountedDenialsAreBounded(t *testing.T) {
	server, store := serve(t)
	for _, l := range []algorithm.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Hour},
		{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Year},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 3, Window: time.Hour},
		{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Hour},
	} {
		l.CountDenied = true
		m, who := l.MustCompile(), stranger()
		key := keyOf(who, m)
		size := func() int {
			if m.Kind == algorithm.KindLog {
				return number(t, server.Addr, "LLEN", key)
			}
			return number(t, server.Addr, "STRLEN", key)
		}
		most := 1 + 27
		if m.Kind == algorithm.KindLog {
			most = int(l.Count) + 2 // the base, and one above the limit
		}
		for range 3 {
			hit(t, store, monday, who, m)
		}
		before := ask(t, server.Addr, "DUMP", key)
		for i := range 100 {
			if hit(t, store, monday+seconds(i), who, m) {
				t.Fatalf("%v: call %d passed", m, i)
			}
			if n := size(); n > most {
				t.Fatalf("%v: %d after %d denied calls, want at most %d", m, n, i+1, most)
			}
		}
		if ask(t, server.Addr, "DUMP", key) == before {
			t.Errorf("%v: denied calls were not recorded", m)
		}
		if n := used(t, store, monday+seconds(99), who, m); n != l.Count+1 {
			t.Errorf("%v: %d used, want one above the limit", m, n)
		}
	}
}

// A request of a banned subject writes nothing either, whatever guards it has.
func TestBannedCallsWriteNothing(t *testing.T) {
	server, store := serve(t)
	for clock, now := range clocks {
		for _, m := range returnable(eachKind(algorithm.MaxWindow)) {
			ticket := guarded(now, stranger(), charge(m, 1))
			g := &ticket.Groups[0]
			take(t, store, ticket)
			if _, err := store.Ban(t.Context(), &storage.Ban{Now: now, Subject: g.Subject, Penalty: g.Penalty, Length: time.Hour}); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, server.Addr, g.Subject)
			for range 20 {
				ticket.Nonce, g.Call = ticket.Nonce+1<<40, newCallID()
				if take(t, store, ticket).Allowed {
					t.Errorf("%s clock, %v: passed although banned", clock, m)
				}
			}
			if after := snapshot(t, server.Addr, g.Subject); !maps.Equal(before, after) {
				t.Errorf("%s clock, %v: banned calls changed %q to %q", clock, m, before, after)
			}
		}
	}
}

// A peek with guards is still a peek.
func TestGuardedPeeksCreateNothing(t *testing.T) {
	server, store := serve(t)
	for clock, now := range clocks {
		for _, m := range returnable(eachKind(time.Hour)) {
			ticket := guarded(now, stranger(), charge(m, 0))
			if !take(t, store, ticket).Allowed {
				t.Errorf("%s clock, %v: denied", clock, m)
			}
			if keys := keysOf(t, server.Addr, ticket.Groups[0].Subject); len(keys) > 0 {
				t.Errorf("%s clock, %v: a peek wrote %q", clock, m, keys)
			}
		}
	}
}

package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

func (d damagedValue) put(t testing.TB, addr string, ticket *storage.Ticket) {
	t.Helper()
	foreignValue{d.what, d.make}.put(t, addr, d.key(ticket))
}

// Runs with requests whose guards are corrupt answer all others, exactly; what is corrupt is unchanged.
func TestDamagedGuardsLeaveNeighboursAlone(t *testing.T) {
	server, store := serve(t)
	m := slidingLog(3, time.Hour)
	for _, now := range clocks {
		damaged := make([]*storage.Ticket, 0, 32)
		before := map[storage.Subject]string{}
		for _, d := range damages() {
			ticket := guarded(now, stranger(), charge(m, 1), charge(eachKind(time.Hour)[0], 1))
			d.put(t, server.Addr, ticket)
			who := ticket.Groups[0].Subject
			before[who] = must(dump(server.Addr, who))
			damaged = append(damaged, ticket)
		}
		const callers = 10 // on each subject
		sound := make([]storage.Subject, len(damaged))
		passed := make([]atomic.Int64, len(damaged))
		for i := range sound {
			sound[i] = stranger()
		}
		atOnce(2*callers*len(damaged), func(i int) {
			k := i / 2 % len(damaged)
			if i%2 == 0 {
				var out storage.Outcome
				if err := store.Take(t.Context(), damaged[k], &out); !errors.Is(err, storage.ErrCorrupt) {
					t.Errorf("%s: error %v, want ErrCorrupt", damages()[k].what, err)
				}
				return
			}
			ticket := guarded(now, sound[k], charge(m, 1))
			ticket.Groups[0].Penalty = nil
			if take(t, store, ticket).Allowed {
				passed[k].Add(1)
			}
		})
		for k := range passed {
			expect(t, "calls that passed beside "+damages()[k].what, int(passed[k].Load()), 3)
		}
		for who, was := range before {
			if after := must(dump(server.Addr, who)); after != was {
				t.Errorf("%q became %q", was, after)
			}
		}
	}
}

// A ticket with one corrupt group charges, records and reserves nothing for the others.
func TestDamagedGuardTakesNothing(t *testing.T) {
	server, store := serve(t)
	m := eachKind(time.Hour)[0]
	for _, d := range damages() {
		for _, alone := range []bool{false, true} {
			ticket := guarded(monday, stranger(), charge(m, 1))
			d.put(t, server.Addr, ticket)
			other := guarded(monday, stranger(), charge(m, 1)).Groups[0]
			other.Alone = alone
			ticket.Groups = append(ticket.Groups, other)
			if err := store.Take(t.Context(), ticket, new(storage.Outcome)); !errors.Is(err, storage.ErrCorrupt) {
				t.Errorf("%s: error %v, want ErrCorrupt", d.what, err)
			}
			if keys := keysOf(t, server.Addr, other.Subject); len(keys) > 0 {
				t.Errorf("%s: the other group wrote %q", d.what, keys)
			}
		}
	}
}

// Foreign fields beside reservations are ignored.
func TestForeignFieldsAmongReservations(t *testing.T) {
	server, store := serve(t)
	for _, now := range clocks {
		for length := range 30 {
			ticket := guarded(now, stranger(), charge(eachKind(time.Hour)[0], 1))
			key := theReservations(ticket)
			ask(t, server.Addr, "HSET", key, "foreign", strings.Repeat("\xff", length), "", "", field(ticket.Nonce + 1)[1:], "x")
			if !take(t, store, ticket).Allowed || !settle(t, store, settlement(ticket, storage.Renew)).Allowed ||
				!settle(t, store, settlement(ticket, storage.Settle)).Allowed {
				t.Errorf("fields of %d bytes: denied", length)
			}
			expect(t, "fields", number(t, server.Addr, "HLEN", key), 4)
		}
	}
}

// Records that no request can have made are ignored.
func TestAbsurdRecords(t *testing.T) {
	server, store := serve(t)
	m := spacious()
	most := algorithm.Instant(1<<56 - 1)
	for _, c := range []struct {
		first   algorithm.Instant
		replays byte
		replay  bool
	}{
		{0, 0, false}, {1, 0, false}, {most, 0, false}, {most, 255, false}, {algorithm.MaxInstant, 0, false},
		{monday - seconds(3600), 0, false}, {monday + seconds(3600) + 1, 0, false}, {monday, 2, false}, {monday, 255, false},
		{monday, 1, true}, {monday + seconds(3600), 0, true}, {monday - seconds(3600) + 1, 0, true},
	} {
		ticket := guarded(monday, stranger(), charge(m, 1))
		key := theRecord(ticket)
		ask(t, server.Addr, "SET", key, instant(c.first)+string([]byte{c.replays})+instant(most)+strings.Repeat("\xff", 8))
		out := take(t, store, ticket)
		if !out.Allowed || out.Groups[0].Replay != c.replay {
			t.Errorf("first seen at %d, %d replays: allowed %v, replay %v", c.first, c.replays, out.Allowed, out.Groups[0].Replay)
		}
		want := instant(monday) + "\x00"
		if c.replay {
			want = instant(c.first) + string([]byte{c.replays + 1})
		}
		if got := ask(t, server.Addr, "GET", key); len(got) != 23 || got[:8] != want {
			t.Errorf("first seen at %d, %d replays: the record became %q", c.first, c.replays, got)
		}
	}
	everyKeyExpires(t, server.Addr)
}

// Reservations with receipts that no request can have received return what there is, and no more.
func TestAbsurdReceipts(t *testing.T) {
	server, store := serve(t)
	for _, m := range returnable(eachKind(time.Hour)) {
		for _, at := range []algorithm.Instant{0, monday, 1<<56 - 1} {
			for _, cost := range []int64{0, 1, 1<<48 - 1} {
				ticket := one(monday, stranger(), charge(m, 1))
				ticket.Groups[0].Reserve = time.Hour
				take(t, store, ticket)
				print := element(algorithm.Instant(m.Fingerprint), 0)[:7]
				ask(t, server.Addr, "HSET", theReservations(ticket), field(ticket.Nonce),
					"\x00"+instant(monday+seconds(60))+print+element(at, cost))
				settle(t, store, settlement(ticket, storage.Release))
				if n := used(t, store, monday, ticket.Groups[0].Subject, m); n < 0 || n > 1 {
					t.Errorf("%v, receipt at %d of %d: %d used", m, at, cost, n)
				}
			}
		}
		// A reservation that ends later than possible is not believed.
		ticket := one(monday, stranger(), charge(m, 1))
		ask(t, server.Addr, "HSET", theReservations(ticket), field(ticket.Nonce), "\x00"+instant(1<<56-1))
		err := store.Settle(t.Context(), settlement(ticket, storage.Renew), new(storage.SettleOutcome))
		if !errors.Is(err, storage.ErrNoReservation) {
			t.Errorf("%v: a reservation without end: error %v", m, err)
		}
	}
}

// Bans with states that no penalty can have still end.
func TestAbsurdBans(t *testing.T) {
	server, store := serve(t)
	penalty := penaltyOf(3, time.Minute, time.Hour)
	print := element(algorithm.Instant(algorithm.PenaltyFingerprint), 0)[:7]
	for _, at := range []algorithm.Instant{0, monday, 1<<56 - 1} {
		for _, length := range []algorithm.Instant{0, 1, seconds(60)} {
			for _, b := range []string{"\x00\x00\x00\x00\x00", "\x00\x00\x04\x00\x00", "\x00\x00\x07\xff\xff"} {
				ticket := one(monday, stranger(), charge(spacious(), 1))
				ticket.Groups[0].Penalty = penalty
				ask(t, server.Addr, "SET", theValue(ticket), "\x01"+print+instant(at)+"\x50"+instant(length)+b)
				take(t, store, ticket)
				if ticket.Now = monday + seconds(61); !take(t, store, ticket).Allowed {
					t.Errorf("at %d, for %d, %q: still banned after a minute", at, length, b)
				}
			}
		}
	}
}

// A settlement of a corrupt subject fails, whatever is settled beside it.
func TestDamagedSettlements(t *testing.T) {
	server, store := serve(t)
	if err := errors.Join(settleForeign(store, server.Addr), resetForeign(store, server.Addr)); err != nil {
		t.Error(err)
	}
	for _, f := range foreigners(algorithm.KindWindow) {
		who := stranger()
		f.put(t, server.Addr, keyOf(who, spacious()))
		if err := refuses(server.Addr, fmt.Sprintf("ban over %s", f.name), who, func() error {
			_, err := store.Ban(t.Context(), &storage.Ban{Now: monday, Subject: who, Penalty: penaltyOf(3, time.Minute, time.Hour), Length: time.Minute})
			return err
		}); err != nil {
			t.Error(err)
		}
	}
}

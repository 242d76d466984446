package redisstore_test

import (
	"maps"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// What one request can make Redis store is bounded by a constant, whatever its id and cost. The bounds
// leave room for other versions of Redis.
func TestMemoryOfGuards(t *testing.T) {
	server, store := serve(t)
	usage := func(key string) int { return number(t, server.Addr, "MEMORY", "USAGE", key, "SAMPLES", "0") }
	most := func(what string, bytes, bound int) {
		t.Helper()
		if bytes <= 0 || bytes > bound {
			t.Errorf("%s takes %d bytes, want at most %d", what, bytes, bound)
		}
		t.Logf("%s: %d bytes", what, bytes)
	}
	ticket := guarded(0, stranger(), charge(spacious(), algorithm.MaxCount/2))
	take(t, store, ticket)
	most("a record", usage(recordKey(&ticket.Groups[0])), 256)

	var charges []algorithm.Charge
	for i := range storage.MaxCharges {
		l := spacious().Limit()
		l.Ordinal = uint8(i)
		charges = append(charges, charge(l.MustCompile(), 1))
	}
	const n = 1000
	for _, c := range []struct {
		what    string
		charges []algorithm.Charge
		bound   int // of one entry, and of the hash around it
	}{{"a reservation of a charge", charges[:1], 224}, {"a reservation of sixteen", charges, 768}} {
		who := stranger()
		for i := range n {
			ticket := one(0, who, c.charges...)
			ticket.Groups[0].Reserve = time.Hour
			take(t, store, ticket)
			if i == 0 {
				most(c.what+", the first", usage(reservationsKey(who)), c.bound+256)
			}
		}
		expect(t, "reservations", number(t, server.Addr, "HLEN", reservationsKey(who)), n)
		most(c.what, usage(reservationsKey(who))/n, c.bound)
	}

	who := stranger()
	for range n {
		if _, err := store.Hold(one(0, who, charges[0]), new(storage.Outcome)); err != nil {
			t.Fatal(err)
		}
	}
	most("a hold", usage(reservationsKey(who))/n, 224)

	spent := slidingLog(1, time.Hour)
	ticket = one(0, stranger(), charge(spent, 1))
	g := &ticket.Groups[0]
	g.Penalty = penaltyOf(200, time.Hour, time.Hour)
	for range 100 {
		take(t, store, ticket)
	}
	most("strikes", usage(redisstore.SubjectKey(prefix, g.Subject)), 192)
	for range 200 {
		take(t, store, ticket)
	}
	if out := take(t, store, ticket); out.Groups[0].BannedUntil == 0 {
		t.Error("not banned")
	}
	most("a ban", usage(redisstore.SubjectKey(prefix, g.Subject)), 192)
	everyKeyExpires(t, server.Addr)
}

// A client that invents ids and nonces is recorded as often as it passes, and no more.
func TestFloodOfMadeUpCalls(t *testing.T) {
	server, store := serve(t)
	const limit = 5
	for _, m := range []*algorithm.Meter{
		slidingLog(limit, time.Hour),
		algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: limit, Window: 24 * time.Hour}.MustCompile(),
	} {
		who := stranger()
		call := func() bool {
			ticket := guarded(0, who, charge(m, 1))
			ticket.Groups[0].Penalty = nil // strikes are written, into one value
			return take(t, store, ticket).Allowed
		}
		expect(t, "calls that pass", count(limit, func(int) bool { return call() }), limit)
		before, size := snapshot(t, server.Addr, who), number(t, server.Addr, "DBSIZE")
		expect(t, "calls above the limit that pass", count(300, func(int) bool { return call() }), 0)
		if after := snapshot(t, server.Addr, who); !maps.Equal(before, after) {
			t.Errorf("%v: denied calls changed %q to %q", m, before, after)
		}
		expect(t, "keys of the server", number(t, server.Addr, "DBSIZE"), size)
		expect(t, "reservations", number(t, server.Addr, "HLEN", reservationsKey(who)), limit)

		strikes := func() { take(t, store, guarded(0, who, charge(m, 1))) }
		strikes()
		size = number(t, server.Addr, "DBSIZE")
		for range 100 {
			strikes()
		}
		expect(t, "keys of the server after a hundred strikes", number(t, server.Addr, "DBSIZE"), size)
	}
	everyKeyExpires(t, server.Addr)
}

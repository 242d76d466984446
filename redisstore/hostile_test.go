package redisstore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// element encodes an entry of a log as the script writes it.
func element(at algorithm.Instant, total int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at))
	binary.BigEndian.PutUint64(b[8:], uint64(total))
	return string(b[1:8]) + string(b[10:])
}

// foreignValue is something under one of our keys that we did not write.
type foreignValue struct {
	name string
	make []string // a command; KEY is replaced by the key
}

func (f foreignValue) put(t testing.TB, addr, key string) {
	t.Helper()
	args := append([]string(nil), f.make...)
	args[1] = key
	ask(t, addr, args...)
}

var otherTypes = []foreignValue{
	{"hash", []string{"HSET", "KEY", "field", "value"}},
	{"set", []string{"SADD", "KEY", "member"}},
	{"stream", []string{"XADD", "KEY", "*", "field", "value"}},
}

// foreigners returns everything that must be refused under a key of the kind.
func foreigners(kind algorithm.Kind) []foreignValue {
	text := foreignValue{"string", []string{"SET", "KEY", "value"}}
	number := foreignValue{"number", []string{"SET", "KEY", "12"}}
	list := foreignValue{"list", []string{"RPUSH", "KEY", "1", "2", "3"}}
	zset := foreignValue{"sorted set", []string{"ZADD", "KEY", "1", "one", "2", "two"}}
	all := append([]foreignValue(nil), otherTypes...)
	switch {
	case kind == algorithm.KindLeases:
		return append(all, text, number, list)
	case kind == algorithm.KindLog:
		all = append(all, text, number, zset, list)
		for length := range 30 {
			if length != 13 {
				wrong := strings.Repeat("\x01", length)
				all = append(all, foreignValue{fmt.Sprintf("list of one element of %d bytes", length), []string{"RPUSH", "KEY", wrong}},
					foreignValue{fmt.Sprintf("log that ends with %d bytes", length), []string{"RPUSH", "KEY", element(0, 0), element(monday, 3), wrong}})
			}
		}
		return append(all,
			foreignValue{"log that begins with 12 bytes", []string{"RPUSH", "KEY", element(0, 0)[1:], element(monday, 1), element(monday, 2)}},
			foreignValue{"log with 12 bytes in the middle", []string{"RPUSH", "KEY", element(0, 0), element(monday, 1)[1:], element(monday, 2)}})
	}
	all = append(all, text, number, list, zset)
	for length := range 60 {
		garbage := strings.Repeat("\x07", length)
		all = append(all, foreignValue{fmt.Sprintf("garbage of %d bytes", length), []string{"SET", "KEY", garbage}})
		if length > 0 && (length-1)%27 != 0 {
			all = append(all, foreignValue{fmt.Sprintf("the right version and %d bytes in all", length), []string{"SET", "KEY", "\x01" + garbage[1:]}})
		}
	}
	return append(all, foreignValue{"another version", []string{"SET", "KEY", "\x02" + strings.Repeat("\x00", 27)}})
}

// Under every kind of key, any value that we did not write is an error for the ticket and is unchanged.
func TestForeignValues(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	server, store := serve(t)
	for _, m := range eachKind(time.Hour) {
		for i, f := range foreigners(m.Kind) {
			for j, cost := range []int64{0, 1, 4, 1} {
				who := stranger()
				key := keyOf(who, m)
				f.put(t, server.Addr, key)
				before := ask(t, server.Addr, "DUMP", key)
				var out storage.Outcome
				ticket := one(monday, who, charge(m, cost))
				ticket.Groups[0].Alone = (i+j)%2 == 1 // the same applies to shadow rules
				err := store.Take(t.Context(), ticket, &out)
				if !errors.Is(err, storage.ErrCorrupt) || !errors.Is(err, storage.ErrUnavailable) {
					t.Errorf("%v, cost %d, %s under its key: error %v (%+v), want ErrCorrupt", m, cost, f.name, err, out)
				}
				if after := ask(t, server.Addr, "DUMP", key); after != before {
					t.Errorf("%v, cost %d: %s was changed", m, cost, f.name)
				}
			}
		}
	}
}

// A corrupt element deep in a log matters only to a request that reads it. A request that needs it for its
// retry-after reports the log as corrupt; others get the usual answer.
func TestDamageDeepInALog(t *testing.T) {
	server, store := serve(t)
	for _, countDenied := range []bool{false, true} {
		m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 4, Window: time.Hour, CountDenied: countDenied}.MustCompile()
		for _, c := range []struct {
			cost    int64
			corrupt bool
		}{{0, false}, {5, false}, {2, true}, {3, true}} {
			who := stranger()
			key := redisstore.ListKey(prefix, who, m)
			ask(t, server.Addr, "RPUSH", key, element(0, 0), element(monday, 1), element(monday, 2)[1:], element(monday, 3), element(monday, 4))
			before := ask(t, server.Addr, "DUMP", key)
			var out storage.Outcome
			err := store.Take(t.Context(), one(monday, who, charge(m, c.cost)), &out)
			if errors.Is(err, storage.ErrCorrupt) != c.corrupt || (err != nil) != c.corrupt {
				t.Errorf("%v, cost %d: error %v (%+v)", m, c.cost, err, out)
			}
			if err == nil && out.Decisions[0].Used != 4 {
				t.Errorf("%v, cost %d: %+v, want 4 used", m, c.cost, out)
			}
			if ask(t, server.Addr, "DUMP", key) != before {
				t.Errorf("%v, cost %d: the log was changed", m, c.cost)
			}
		}
	}
}

// A ticket with one corrupt subject charges none of its others.
func TestForeignValueChargesNothing(t *testing.T) {
	server, store := serve(t)
	meters := eachKind(time.Hour)
	for _, damaged := range meters {
		who, bystander := stranger(), stranger()
		otherTypes[0].put(t, server.Addr, keyOf(who, damaged))
		ticket := one(monday, who)
		for i, m := range meters {
			ticket.Groups[0].Charges = append(ticket.Groups[0].Charges, charge(m, 1))
			ticket.Groups = append(ticket.Groups, storage.Group{Subject: bystander, Charges: []algorithm.Charge{charge(m, 1)}, Alone: i%2 == 0})
		}
		var out storage.Outcome
		if err := store.Take(t.Context(), ticket, &out); !errors.Is(err, storage.ErrCorrupt) {
			t.Errorf("%v damaged: error %v, want ErrCorrupt", damaged, err)
		}
		if keys := keysOf(t, server.Addr, bystander); len(keys) > 0 {
			t.Errorf("%v damaged: the ticket wrote %q", damaged, keys)
		}
		if keys := keysOf(t, server.Addr, who); len(keys) != 1 {
			t.Errorf("%v damaged: the subject has the keys %q, want the damaged one alone", damaged, keys)
		}
	}
}

// Runs with corrupt subjects answer all others, exactly.
func TestForeignValuesLeaveNeighboursAlone(t *testing.T) {
	server, store := serve(t)
	meters := eachKind(time.Hour)
	sound, damaged := make([]storage.Subject, len(meters)), make([]storage.Subject, len(meters))
	for i, m := range meters {
		sound[i], damaged[i] = stranger(), stranger()
		foreigners(m.Kind)[i%3].put(t, server.Addr, keyOf(damaged[i], m))
	}
	const callers = 40 // of each meter, on each subject
	var wg sync.WaitGroup
	var mu sync.Mutex
	passed := make([]int, len(meters))
	start := make(chan struct{})
	for i, m := range meters {
		for range callers {
			wg.Go(func() {
				<-start
				var out storage.Outcome
				if err := store.Take(t.Context(), one(monday, damaged[i], charge(m, 1)), &out); !errors.Is(err, storage.ErrCorrupt) {
					t.Errorf("%v, damaged: error %v, want ErrCorrupt", m, err)
				}
			})
			wg.Go(func() {
				<-start
				var out storage.Outcome
				if err := store.Take(t.Context(), one(monday, sound[i], charge(m, 1)), &out); err != nil {
					t.Errorf("%v: %v", m, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if out.Allowed {
					passed[i]++
				}
			})
		}
	}
	close(start)
	wg.Wait()
	for i, m := range meters {
		expect(t, fmt.Sprintf("%v: calls that passed", m), passed[i], 3)
	}
	if s := store.Stats(); s.Runs >= s.Tickets {
		t.Errorf("%d tickets in %d runs: nobody shared one", s.Tickets, s.Runs)
	}
}

// Permits at odd instants are still permits: expired ones are freed, absurd ones do not block forever.
func TestOddLeases(t *testing.T) {
	server, store := serve(t)
	m := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 2, Window: time.Minute}.MustCompile()
	for _, c := range []struct {
		score string
		live  bool
	}{
		{"-inf", false}, {"-1e300", false}, {"0", false}, {"0.5", false}, {fmt.Sprint(monday), false},
		{fmt.Sprint(monday + 1), true}, {"1e300", true}, {"inf", true}, {fmt.Sprint(uint64(math.MaxUint64)), true},
	} {
		who := stranger()
		key := redisstore.ListKey(prefix, who, m)
		ask(t, server.Addr, "ZADD", key, c.score, "a", c.score, "b")
		first := take(t, store, one(monday, who, charge(m, 1)))
		if first.Allowed == c.live {
			t.Errorf("two leases until %s: allowed %v", c.score, first.Allowed)
		}
		for _, d := range first.Decisions {
			if d.RetryAfter < 0 || d.RetryAfter > time.Minute || d.ResetAfter < 0 || d.ResetAfter > time.Minute {
				t.Errorf("two leases until %s: %+v reaches beyond a lease's length", c.score, d)
			}
		}
		if later := monday + seconds(60); !hit(t, store, later, who, m) {
			t.Errorf("two leases until %s: still denied when all this limit could have given are over", c.score)
		}
	}
}

// Costs near the powers of two where integers, and then doubles, stop being exact.
func TestLargeCosts(t *testing.T) {
	_, store := serve(t)
	costs := []int64{math.MinInt64, -1 << 53, -1, math.MaxInt64, 1e12, 1e12 + 1, 1e12 - 1}
	for _, bit := range []int{15, 16, 31, 32, 40, 47, 48, 52, 53, 56} {
		costs = append(costs, 1<<bit-1, 1<<bit, 1<<bit+1)
	}
	limits := []algorithm.Limit{
		{Algorithm: algorithm.FixedWindow, Count: 1e12, Window: time.Hour},
		{Algorithm: algorithm.SlidingWindowCounter, Count: 4e9, Window: time.Second},
		{Algorithm: algorithm.TokenBucket, Count: 4e9, Window: time.Second},
		{Algorithm: algorithm.TokenBucket, Count: 1e12, Window: time.Hour, Refill: algorithm.Interval},
		{Algorithm: algorithm.LeakyBucket, Count: 4e9, Window: time.Second, Queue: 4e9},
		{Algorithm: algorithm.SlidingWindowLog, Count: algorithm.MaxLog, Window: time.Hour},
		{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Hour},
	}
	for _, l := range limits {
		m := l.MustCompile()
		for _, cost := range costs {
			model, who := storetest.NewModel(), stranger()
			for range 3 {
				ticket := one(monday, who, charge(m, cost))
				var want, got storage.Outcome
				wantErr, err := model.Take(t.Context(), ticket, &want), store.Take(t.Context(), ticket, &got)
				if invalid := cost < 0 || cost > algorithm.MaxCount; errors.Is(err, algorithm.ErrInvalid) != invalid || (err != nil) != invalid {
					t.Fatalf("%v, cost %d: error %v", m, cost, err)
				}
				if (wantErr != nil) != (err != nil) || fmt.Sprint(want) != fmt.Sprint(got) {
					t.Errorf("%v, cost %d: got %+v, %v; want %+v, %v", m, cost, got, err, want, wantErr)
				}
			}
		}
	}
}

// However long an attribute is, its key is short, and as long as any other.
func TestHugeAttributes(t *testing.T) {
	server, store := serve(t)
	huge := strings.Repeat("x", 10<<20)
	a := hasher.Subject("test", "rule", storage.Attribute{Name: "path", Value: huge})
	b := hasher.Subject("test", "rule", storage.Attribute{Name: "path", Value: huge + "x"})
	m := eachKind(time.Hour)[0]
	for range 3 {
		if !hit(t, store, monday, a, m) {
			t.Fatal("denied below the limit")
		}
	}
	if hit(t, store, monday, a, m) || !hit(t, store, monday, b, m) {
		t.Error("two values of 10 MB that differ in their last byte share a counter, or one has two")
	}
	for _, key := range append(keysOf(t, server.Addr, a), keysOf(t, server.Addr, b)...) {
		if len(key) != len(prefix)+24 {
			t.Errorf("key %q of %d bytes", key, len(key))
		}
	}
}

package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// FuzzValue puts arbitrary bytes under a subject's key. A ticket is decided or refused as corrupt, and what
// was refused is unchanged.
func FuzzValue(f *testing.F) {
	server, store := serve(f)
	meters := eachKind(time.Hour)
	for i := range meters {
		who := stranger()
		key := redisstore.SubjectKey(prefix, who)
		take(f, store, one(monday, who, charge(meters[i], 1), charge(meters[(i+1)%len(meters)], 2)))
		if ask(f, server.Addr, "EXISTS", key) == "1" {
			f.Add([]byte(ask(f, server.Addr, "GET", key)), uint8(i), uint64(1))
		}
	}
	f.Add([]byte{}, uint8(0), uint64(0))
	f.Add([]byte(strings.Repeat("\xff", 28)), uint8(3), uint64(1e12))
	f.Add([]byte("\x01"+strings.Repeat("\xff", 54)), uint8(2), uint64(5))
	f.Fuzz(func(t *testing.T, value []byte, which uint8, cost uint64) {
		who, m := stranger(), meters[int(which)%len(meters)]
		key := redisstore.SubjectKey(prefix, who)
		ask(t, server.Addr, "SET", key, string(value), "PX", "60000")
		for _, now := range []algorithm.Instant{monday, 0} {
			checkAnswer(t, store, server.Addr, key, string(value), one(now, who, charge(m, int64(cost%(algorithm.MaxCount+1)))))
		}
	})
}

// checkAnswer asks about a key that holds the given string, or something newer.
func checkAnswer(t *testing.T, store *redisstore.Store, addr, key, value string, ticket *storage.Ticket) {
	t.Helper()
	var out storage.Outcome
	err := store.Take(t.Context(), ticket, &out)
	switch {
	case errors.Is(err, storage.ErrCorrupt):
		if now := ask(t, addr, "GET", key); now != value {
			t.Errorf("%q was refused and is now %q", value, now)
		}
	case err != nil:
		t.Errorf("%q: %v", value, err)
	case len(out.Decisions) != 1 || out.Decisions[0].Remaining < 0:
		t.Errorf("%q: decided %+v", value, out)
	}
}

// FuzzLog puts arbitrary elements into a log, of one length or of several.
func FuzzLog(f *testing.F) {
	server, store := serve(f)
	f.Add([]byte(element(0, 0)+element(monday, 1)+element(monday, 3)), uint8(13), uint64(1), true)
	f.Add([]byte(element(0, 0)+element(monday, 1)[1:]+element(monday, 3)), uint8(13), uint64(4), false)
	f.Add([]byte("short"), uint8(1), uint64(0), false)
	f.Fuzz(func(t *testing.T, data []byte, length uint8, cost uint64, countDenied bool) {
		who := stranger()
		m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3, Window: time.Hour, CountDenied: countDenied}.MustCompile()
		key := redisstore.ListKey(prefix, who, m)
		push := []string{"RPUSH", key}
		for size := int(length%20) + 1; len(data) > 0 && len(push) < 100; {
			n := min(size, len(data))
			push, data = append(push, string(data[:n])), data[n:]
		}
		if len(push) == 2 {
			return
		}
		ask(t, server.Addr, push...)
		before := ask(t, server.Addr, "DUMP", key)
		var out storage.Outcome
		err := store.Take(t.Context(), one(monday, who, charge(m, int64(cost%8))), &out)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			if ask(t, server.Addr, "DUMP", key) != before {
				t.Errorf("%q was refused and changed", push[2:])
			}
		case err != nil:
			t.Errorf("%q: %v", push[2:], err)
		}
	})
}

package redisstore_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Every store on the same Redis receives resets and lifted bans, once each, with the minimum permissions.
func TestClearings(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store, other := open(t, o), open(t, o)
		clearings := func() []redisstore.ClearEvent {
			t.Helper()
			all, err := other.Clearings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		if all := clearings(); len(all) != 0 {
			t.Fatalf("before anything: %+v", all)
		}
		penalty, err := algorithm.PenaltyTerms{After: 1, Within: time.Minute, Bans: []time.Duration{time.Hour}, ForgiveAfter: time.Hour}.Compile()
		if err != nil {
			t.Fatal(err)
		}
		m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Minute}.MustCompile()
		reset, lifted := storage.Subject{1, 2, 255, 0}, storage.Subject{9}
		var out storage.Outcome
		if err := store.Take(t.Context(), &storage.Ticket{Groups: []storage.Group{{Subject: reset, Charges: []algorithm.Charge{{Meter: m, Cost: 1}}}}}, &out); err != nil {
			t.Fatal(err)
		}
		ban := func(length time.Duration) {
			t.Helper()
			if _, err := store.Ban(t.Context(), &storage.Ban{Subject: lifted, Penalty: penalty, Length: length}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := store.Reset(t.Context(), &storage.Group{Subject: reset, Charges: []algorithm.Charge{{Meter: m}}}); err != nil {
				t.Fatal(err)
			}
		}
		ban(time.Hour)
		ban(0)
		all := clearings()
		if len(all) != 2 || all[0].Subject != reset || all[0].Lift || all[1].Subject != lifted || !all[1].Lift {
			t.Fatalf("a reset and a lifted ban: %+v", all)
		}
		for _, c := range all {
			if c.At < out.Now || c.At > out.Now.Add(time.Hour) {
				t.Errorf("announced at %d, the request before it was decided at %d", c.At, out.Now)
			}
		}
	})
}

// Announcements expire, and at most as many are kept as a node reads.
func TestClearingsAreBounded(t *testing.T) {
	t.Parallel()
	arrangements(t, func(t *testing.T, addrs []string, o redisstore.Options) {
		store := open(t, o)
		reset := func(n byte) {
			t.Helper()
			if err := store.Reset(t.Context(), &storage.Group{Subject: storage.Subject{n}}); err != nil {
				t.Fatal(err)
			}
		}
		at := addrs[redisstore.TagSlot("cleared")*len(addrs)/16384]
		ask(t, at, "SET", "pen:{cleared}", "not a sorted set")
		reset(1)
		seconds, err := strconv.Atoi(strings.Fields(ask(t, at, "TIME"))[0])
		if err != nil {
			t.Fatal(err)
		}
		now := algorithm.Instant(seconds) * 1_000_000
		strangers := []string{"ZADD", "pen:{cleared}"} // in one command: announcements expire after a minute
		for i := range 2 * redisstore.MaxClearings {
			strangers = append(strangers, strconv.Itoa(int(now)-30_000_000-i), "stranger"+strconv.Itoa(i))
		}
		ask(t, at, strangers...)
		ask(t, at, "ZADD", "pen:{cleared}", strconv.Itoa(int(now)-61_000_000), "old", strconv.Itoa(int(now)+1_000_000_000), "ahead")
		reset(2)
		if n := ask(t, at, "ZCARD", "pen:{cleared}"); n != strconv.Itoa(redisstore.MaxClearings) {
			t.Errorf("%s announcements are kept", n)
		}
		if ttl := ask(t, at, "PTTL", "pen:{cleared}"); strings.HasPrefix(ttl, "-") {
			t.Error("announcements do not expire")
		}
		all, err := store.Clearings(t.Context())
		if err != nil || len(all) != 2 || all[0].Subject != (storage.Subject{1}) || all[1].Subject != (storage.Subject{2}) {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

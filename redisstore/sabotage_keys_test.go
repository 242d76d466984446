package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// slotBytes encodes a slot of a limit that is no longer in use.
func slotBytes(at algorithm.Instant, code uint8, ordinal uint8) string {
	l := algorithm.Limit{Algorithm: algorithm.TokenBucket, Count: 1, Window: time.Second, Ordinal: ordinal}
	return element(algorithm.Instant(l.MustCompile().Fingerprint), 0)[:7] + element(at, 0)[:7] + string([]byte{code}) + strings.Repeat("\x01", 12)
}

// checkSlots checks what a write does to the slots of other limits: live slots stay and keep the key alive
// as long as they need and an eighth longer, expired ones are removed.
func checkSlots(store *redisstore.Store, addr string) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Window: time.Second}.MustCompile()
	now := algorithm.InstantOf(time.Now())
	for code := 1; code < 256; code += 1 + code/16 {
		who := stranger()
		key := redisstore.SubjectKey(prefix, who)
		life := algorithm.Instant(algorithm.CodeLife(uint8(code)))
		if life > 1<<50 {
			break // no limit lives that long
		}
		// One that ends in a minute, and one that ended a minute ago.
		end := now + seconds(60)
		alive, stale := slotBytes(end-life, uint8(code), 1), slotBytes(max(0, end-life-seconds(120)), uint8(code), 2)
		if end-life < seconds(120) {
			continue
		}
		for _, value := range []string{"\x01" + stale + alive, "\x01" + alive + stale} {
			if _, err := redistest.Command(addr, "SET", key, value); err != nil {
				return err
			}
			since := time.Now() // the server may be delayed between reading the clock and writing
			var out storage.Outcome
			if err := store.Take(context.Background(), one(0, who, charge(m, 1)), &out); err != nil {
				return err
			}
			got, err := redistest.Command(addr, "GET", key)
			if err != nil {
				return err
			}
			if len(got) != 1+2*27 || !strings.Contains(got, alive) || got[0] != 1 {
				return fmt.Errorf("life code %d: %q became %q", code, value, got)
			}
			ttl, err := redistest.Command(addr, "PEXPIRETIME", key)
			want := int64(end+life/8) / 1000
			if at, _ := strconv.ParseInt(ttl, 10, 64); err != nil || at < want || at > want+3+time.Since(since).Milliseconds() {
				return fmt.Errorf("life code %d: ends at %s, want %d ms (%v)", code, ttl, want, err)
			}
		}
	}
	return nil
}

// checkDates uses other starts of calendar periods than the node's own: the script picks the period that
// contains the instant and refuses an instant that none of them contains.
func checkDates(store *redisstore.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Year}.MustCompile()
	starts := [4]algorithm.Instant{monday, monday + 10, monday + 20, monday + 30}
	for now := monday - 1; now <= monday+30; now++ {
		who := stranger()
		found, err := store.TakeDated(one(now, who, charge(m, 1)), starts)
		inside := now >= starts[0] && now < starts[3]
		if (err == nil) != inside || err != nil && !strings.Contains(err.Error(), "clock") {
			return fmt.Errorf("%d µs after the first start: %v", now-monday, err)
		}
		if want := monday + (now-monday)/10*10; inside && (!found.Passes || found.State.At != want || found.State.Used != 1) {
			return fmt.Errorf("%d µs after the first start: got %+v, want the period of %d", now-monday, found, want)
		}
	}
	return nil
}

// checkQuiet exhausts limits and checks that denied requests and peeks write nothing.
func checkQuiet(store *redisstore.Store, addr string) error {
	for _, m := range eachKind(time.Hour) {
		for _, now := range clocks {
			who := stranger()
			ask := func(cost int64) error {
				return store.Take(context.Background(), one(now, who, charge(m, cost)), new(storage.Outcome))
			}
			state := func() (string, error) {
				return redistest.Command(addr, "EVAL", `return {redis.call('DUMP', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}`, "1", keyOf(who, m))
			}
			for range 3 {
				if err := ask(1); err != nil {
					return err
				}
			}
			before, err := state()
			if err != nil {
				return err
			}
			time.Sleep(2 * time.Millisecond) // so that a later expiry would be noticed
			for _, cost := range []int64{0, 1, 3, 4, algorithm.MaxCount} {
				if err := ask(cost); err != nil {
					return err
				}
			}
			if after, err := state(); err != nil || after != before {
				return fmt.Errorf("%v: denied calls and peeks changed %q to %q (%v)", m, before, after, err)
			}
		}
	}
	return nil
}

// checkMisplaced puts the fingerprint of a limit where another limit keeps its counts: a slot is found by
// its position, not wherever the bytes happen to occur.
func checkMisplaced(store *redisstore.Store, addr string) error {
	// Its fingerprint begins with a bracket, which is special in a pattern.
	m := algorithm.Limit{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Count: 10, Window: time.Second, Ordinal: 22}.MustCompile()
	print := element(algorithm.Instant(m.Fingerprint), 0)[:7]
	end := algorithm.InstantOf(time.Now()) + seconds(60)
	other := slotBytes(end, 1, 1)
	other = other[:16] + print + other[23:]
	if print[0] != '[' {
		return fmt.Errorf("fingerprint %q does not begin with a bracket", print)
	}
	start := monday - monday%seconds(1)
	own := print + element(start, 0)[:7] + "\x01" + element(2, 0)[:7] + strings.Repeat("\x00", 5)
	for value, want := range map[string]int64{"\x01" + other: 1, "\x01" + other + own: 3, "\x01" + own + other: 3} {
		who := stranger()
		if _, err := redistest.Command(addr, "SET", redisstore.SubjectKey(prefix, who), value); err != nil {
			return err
		}
		var out storage.Outcome
		if err := store.Take(context.Background(), one(monday, who, charge(m, 1)), &out); err != nil {
			return err
		}
		if got := out.Decisions[0].Used; got != want {
			return fmt.Errorf("%q: %d used, want %d", value, got, want)
		}
	}
	return nil
}

// checkLogs checks logs that only a long life or a wrong clock can produce.
func checkLogs(store *redisstore.Store, addr string) error {
	const wrap = 1 << 48 // of running totals
	m := slidingLog(5, time.Hour)
	hour := seconds(3600)
	for _, c := range []struct {
		what     string
		elements []string
		cost     int64
		used     int64 // afterwards; negative: the log is corrupt
		length   int   // of the list afterwards
	}{
		{"totals that wrap with this call", []string{element(0, wrap-3), element(monday, wrap-1)}, 3, 5, 3},
		{"totals that have wrapped", []string{element(0, wrap-2), element(monday, wrap-1), element(monday, 2)}, 1, 5, 4},
		{"a total of just nothing", []string{element(0, wrap-1), element(monday, 0)}, 4, 5, 3},
		{"entries that left, and a newest of a wrong clock",
			[]string{element(0, 0), element(monday, 1), element(monday+1, 2), element(monday+9*hour, 4)}, 1, 3, 3},
		{"the same, denied", []string{element(0, 0), element(monday, 1), element(monday+1, 2), element(monday+9*hour, 4)}, 4, 2, 2},
		{"a newest that counts nothing", []string{element(0, 0), element(monday, 1), element(monday+1, 1)}, 1, 2, 3},
		{"a newest of a wrong clock that counts nothing", []string{element(0, 0), element(monday, 1), element(monday+9*hour, 1)}, 1, 1, 3},
		{"an entry damaged where only the wait is looked for",
			[]string{element(0, 0), element(monday, 1), element(monday, 2), element(monday, 3)[1:], element(monday, 4), element(monday, 5)}, 3, -1, 6},
	} {
		who := stranger()
		key := redisstore.ListKey(prefix, who, m)
		if _, err := redistest.Command(addr, append([]string{"RPUSH", key}, c.elements...)...); err != nil {
			return err
		}
		var out storage.Outcome
		err := store.Take(context.Background(), one(monday+2, who, charge(m, c.cost)), &out)
		if c.used < 0 != errors.Is(err, storage.ErrCorrupt) || c.used >= 0 && (err != nil || out.Decisions[0].Used != c.used) {
			return fmt.Errorf("%s: %+v, %v; want %d used", c.what, out, err, c.used)
		}
		if n, err := redistest.Command(addr, "LLEN", key); n != strconv.Itoa(c.length) {
			return fmt.Errorf("%s: %s elements (%v), want %d", c.what, n, err, c.length)
		}
	}
	return nil
}

// checkLeases denies a request with a permit by another limit: the key of the permits is unchanged.
func checkLeases(store *redisstore.Store, addr string) error {
	lease := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 3, Window: time.Hour}.MustCompile()
	spent := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 0, Window: time.Hour}.MustCompile()
	who := stranger()
	key := redisstore.ListKey(prefix, who, lease)
	if _, err := redistest.Command(addr, "ZADD", key, fmt.Sprint(monday-1), "expired"); err != nil {
		return err
	}
	if _, err := redistest.Command(addr, "PEXPIRE", key, "60000"); err != nil {
		return err
	}
	before, err := redistest.Command(addr, "PEXPIRETIME", key)
	if err != nil {
		return err
	}
	if err := store.Take(context.Background(), one(monday, who, charge(lease, 1), charge(spent, 1)), new(storage.Outcome)); err != nil {
		return err
	}
	if after, err := redistest.Command(addr, "PEXPIRETIME", key); after != before {
		return fmt.Errorf("a denied call moved the end of leases from %s to %s (%v)", before, after, err)
	}
	return nil
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// endsAt checks that a key expires at an instant of the server's clock, rounded up to milliseconds. If a
// ticket brought the instant, the key lives for at least an hour on the real clock. The server may have
// been delayed between reading the clock and writing the key, at most since then.
func endsAt(addr, key string, since time.Time, end algorithm.Instant, given bool) error {
	reply, err := redistest.Command(addr, "EVAL",
		`return string.format('%.0f %.0f', redis.call('PEXPIRETIME', KEYS[1]), redis.call('PTTL', KEYS[1]))`, "1", key)
	if err != nil {
		return err
	}
	heldUp := time.Since(since).Microseconds()
	var at, left int64
	if _, err := fmt.Sscan(reply, &at, &left); err != nil {
		return err
	}
	hour := time.Hour.Milliseconds()
	if given {
		if left < hour-60_000 || left > hour {
			return fmt.Errorf("%s ends in %d ms, want an hour", key, left)
		}
		return nil
	}
	if off := at*1000 - int64(end); off < 0 || off > 3000+heldUp {
		return fmt.Errorf("%s ends %d µs after it should", key, off)
	}
	return nil
}

// checkGuardEnds checks the expiry of records, reservations, holds and bans.
func checkGuardEnds(store *redisstore.Store, addr string) error {
	for _, now := range clocks {
		for i := range 12 { // covers every part of a millisecond
			if err := errors.Join(
				recordEnds(store, addr, now),
				reservationEnds(store, addr, now),
				holdEnds(store, addr, now),
				banEnds(store, addr, now, time.Duration(i)*83*time.Microsecond),
				settledEnds(store, addr, now),
			); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordEnds: a record ends with its TTL, and a duplicate does not extend it.
func recordEnds(store *redisstore.Store, addr string, now algorithm.Instant) error {
	t := one(now, stranger(), charge(eachKind(time.Hour)[0], 1))
	g := &t.Groups[0]
	g.Dedup, g.Call = dedupOf(oddWindow), newCallID()
	var first, out storage.Outcome
	since := time.Now()
	for i := range 2 {
		if err := store.Take(context.Background(), t, &out); err != nil {
			return err
		}
		if i == 0 {
			first.Now = out.Now
		}
		if replay := i > 0; out.Groups[0].Replay != replay {
			return fmt.Errorf("call %d: replay %v", i, !replay)
		}
		if err := endsAt(addr, recordKey(g), since, first.Now.Add(oddWindow), now != 0); err != nil {
			return err
		}
	}
	return nil
}

// reservationEnds: the hash of reservations lives as long as the longest of them.
func reservationEnds(store *redisstore.Store, addr string, now algorithm.Instant) error {
	m := eachKind(time.Hour)[0]
	t := one(now, stranger(), charge(m, 1))
	g := &t.Groups[0]
	key := reservationsKey(g.Subject)
	since := time.Now()
	var end algorithm.Instant
	for _, length := range []time.Duration{oddWindow, oddWindow / 2, 3 * oddWindow} {
		var out storage.Outcome
		t.Nonce++
		g.Reserve = length.Truncate(time.Microsecond)
		if err := store.Take(context.Background(), t, &out); err != nil {
			return err
		}
		end = max(end, out.Now.Add(g.Reserve))
		if err := endsAt(addr, key, since, end, now != 0); err != nil {
			return fmt.Errorf("reserved for %v: %w", g.Reserve, err)
		}
	}
	for _, c := range []struct {
		verb storage.Verb
		ttl  time.Duration
	}{{storage.Renew, time.Second}, {storage.Renew, 5 * oddWindow}, {storage.Settle, 0}} {
		s, out := settlement(t, c.verb), storage.SettleOutcome{}
		s.TTL = c.ttl
		if err := store.Settle(context.Background(), s, &out); err != nil {
			return err
		}
		if want := out.Now.Add(c.ttl); c.verb == storage.Renew && out.Until != want {
			return fmt.Errorf("renewed until %d, want %d", out.Until, want)
		}
		end = max(end, out.Until)
		if err := endsAt(addr, key, since, end, now != 0); err != nil {
			return fmt.Errorf("%v: %w", c.verb, err)
		}
	}
	return nil
}

// holdEnds: a hold is kept for holdTime.
func holdEnds(store *redisstore.Store, addr string, now algorithm.Instant) error {
	t := one(now, inNode(0), charge(eachKind(time.Hour)[0], 1))
	t.Groups = append(t.Groups, storage.Group{Subject: inNode(2), Charges: t.Groups[0].Charges})
	since := time.Now()
	var out storage.Outcome
	if err := (redisstore.Across{Store: store}).Take(context.Background(), t, &out); err != nil {
		return err
	}
	for _, g := range t.Groups {
		key := reservationsKey(g.Subject)
		if now != 0 {
			if err := endsAt(addr, key, since, 0, true); err != nil {
				return err
			}
			continue
		}
		// Compare the end in its value with the expiry of the key: both were decided at one instant.
		text, err := redistest.Command(addr, "HVALS", key)
		if err != nil || len(text) < 8 {
			return fmt.Errorf("a hold of %q (%v)", text, err)
		}
		until := new(big.Int).SetBytes([]byte(text[1:8])).Int64()
		if err := endsAt(addr, key, since, algorithm.Instant(until), false); err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	}
	return nil
}

// banEnds: a ban is remembered until it is forgiven, even if it was lifted. Its key is kept for an eighth longer.
func banEnds(store *redisstore.Store, addr string, now algorithm.Instant, more time.Duration) error {
	forgive := time.Minute + 999*time.Microsecond
	kept := time.Duration(algorithm.CodeLife(algorithm.LifeCode(forgive.Microseconds()))) * time.Microsecond * 9 / 8
	b := &storage.Ban{Now: now, Subject: stranger(), Penalty: penaltyOf(3, time.Minute, forgive), Length: oddWindow + more}
	since := time.Now()
	until, err := store.Ban(context.Background(), b)
	if err != nil {
		return err
	}
	key := redisstore.SubjectKey(prefix, b.Subject)
	if err := endsAt(addr, key, since, until.Add(kept), now != 0); err != nil {
		return fmt.Errorf("ban: %w", err)
	}
	// A ban that a request causes is no different.
	t := one(now, stranger(), charge(algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1, Window: time.Hour}.MustCompile(), 1))
	t.Groups[0].Penalty = penaltyOf(1, oddWindow+more, forgive)
	var out storage.Outcome
	for range 2 {
		if err := store.Take(context.Background(), t, &out); err != nil {
			return err
		}
	}
	if err := endsAt(addr, theValue(t), since, out.Groups[0].BannedUntil.Add(kept), now != 0); err != nil {
		return fmt.Errorf("strike: %w", err)
	}
	if b.Length = 0; now == 0 {
		return nil // a lift does not report its instant
	}
	if _, err := store.Ban(context.Background(), b); err != nil {
		return err
	}
	return endsAt(addr, key, since, 0, true)
}

// settledEnds: after a settlement, a value expires as after a charge.
func settledEnds(store *redisstore.Store, addr string, now algorithm.Instant) error {
	for _, verb := range []storage.Verb{storage.Settle, storage.Release, storage.Renew} {
		for _, m := range returnable(eachKind(oddWindow)) {
			t := one(now, stranger(), charge(m, 2))
			g := &t.Groups[0]
			g.Reserve = time.Hour
			var out storage.Outcome
			if err := store.Take(context.Background(), t, &out); err != nil {
				return err
			}
			s, settled := settlement(t, verb), storage.SettleOutcome{}
			s.Charges[0].Cost = 3
			if err := store.Settle(context.Background(), s, &settled); err != nil {
				return err
			}
			out.Now, out.Decisions = settled.Now, settled.Decisions
			if err := ends(addr, g.Subject, out, []*algorithm.Meter{m}, now != 0); err != nil {
				return fmt.Errorf("%v: %w", verb, err)
			}
		}
	}
	return nil
}

// checkTidy checks what is left of expired reservations: a request that reserves on the server's clock
// removes some, and keeps live and foreign ones.
func checkTidy(store *redisstore.Store, addr string) error {
	past, future := "\x00"+instant(monday-1), "\x00"+instant(algorithm.InstantOf(time.Now())+seconds(3600))
	for _, c := range []struct {
		what  string
		now   algorithm.Instant
		value string // of the fields
		left  string
	}{
		{"over", 0, past, "1"},
		{"over, at an instant that was given", monday, past, "3"},
		{"still open", 0, future, "3"},
		{"too short to be ours", 0, "\x00\x00\x00\x00\x00\x00\x00", "3"},
		{"empty", 0, "", "3"},
	} {
		for range 6 {
			t := one(c.now, stranger(), charge(eachKind(time.Hour)[0], 1))
			g := &t.Groups[0]
			g.Reserve = time.Minute
			key := reservationsKey(g.Subject)
			if _, err := redistest.Command(addr, "HSET", key, field(1<<60), c.value, field(2<<60), c.value); err != nil {
				return err
			}
			var out storage.Outcome
			if err := store.Take(context.Background(), t, &out); err != nil || !out.Allowed {
				return fmt.Errorf("%s: allowed %v, %w", c.what, out.Allowed, err)
			}
			if n, err := redistest.Command(addr, "HLEN", key); n != c.left {
				return fmt.Errorf("two fields that are %s, and a new one: %s left (%v), want %s", c.what, n, err, c.left)
			}
		}
	}
	return nil
}

// damagedValue is something under a key of a guarded group that we did not write.
type damagedValue struct {
	what string
	key  func(t *storage.Ticket) string
	make []string
}

func theRecord(t *storage.Ticket) string       { return recordKey(&t.Groups[0]) }
func theReservations(t *storage.Ticket) string { return reservationsKey(t.Groups[0].Subject) }
func theValue(t *storage.Ticket) string        { return redisstore.SubjectKey(prefix, t.Groups[0].Subject) }

// damages returns everything that makes a guarded ticket fail.
func damages() []damagedValue {
	var all []damagedValue
	for _, f := range otherTypes {
		all = append(all, damagedValue{f.name + " for a record", theRecord, f.make})
		if f.name != "hash" {
			all = append(all, damagedValue{f.name + " for reservations", theReservations, f.make})
		}
	}
	for _, length := range []int{0, 1, 22, 24, 46} {
		all = append(all, damagedValue{fmt.Sprintf("record of %d bytes", length), theRecord, []string{"SET", "KEY", strings.Repeat("\x01", length)}})
	}
	return append(all,
		damagedValue{"text for reservations", theReservations, []string{"SET", "KEY", "text"}},
		damagedValue{"hash for a value", theValue, otherTypes[0].make},
		damagedValue{"another version of a value", theValue, []string{"SET", "KEY", "\x02" + strings.Repeat("\x00", 27)}})
}

// damagedFields returns values that a reservation cannot have.
func damagedFields() []string {
	open := "\x00" + instant(monday+seconds(30))
	receipt := strings.Repeat("\x01", 20)
	return []string{"", open[:7], open + receipt[:19], open + receipt + receipt[:1], "\x02" + open[1:] + receipt, "\xff" + open[1:]}
}

// refuses checks that an action is refused as corrupt and changes nothing of the subject.
func refuses(addr, what string, who storage.Subject, act func() error) error {
	before, err := dump(addr, who)
	if err != nil {
		return err
	}
	if err := act(); !errors.Is(err, storage.ErrCorrupt) {
		return fmt.Errorf("%s: error %v, want ErrCorrupt", what, err)
	}
	after, err := dump(addr, who)
	if err == nil && before != after {
		err = fmt.Errorf("%s: changed from %q to %q", what, before, after)
	}
	return err
}

// dump returns everything of a subject as one text.
func dump(addr string, who storage.Subject) (string, error) {
	return redistest.Command(addr, "EVAL", `local all = redis.call('KEYS', ARGV[1])
		table.sort(all)
		for i, key in ipairs(all) do all[i] = key .. redis.call('DUMP', key) .. redis.call('PEXPIRETIME', key) end
		return table.concat(all, ' ')`, "0", prefix+"{"+who.String()+"}*")
}

// checkGuardForeign corrupts the state of guards: it is an error, and nothing is overwritten.
func checkGuardForeign(store *redisstore.Store, addr string) error {
	m := eachKind(time.Hour)[0]
	put := func(d damagedValue, t *storage.Ticket) error {
		args := slices.Clone(d.make)
		args[1] = d.key(t)
		_, err := redistest.Command(addr, args...)
		return err
	}
	for _, d := range damages() {
		t := guarded(monday, stranger(), charge(m, 1))
		if err := put(d, t); err != nil {
			return err
		}
		if err := refuses(addr, d.what, t.Groups[0].Subject, func() error { return store.Take(context.Background(), t, new(storage.Outcome)) }); err != nil {
			return err
		}
	}
	// A group that only holds.
	d := damagedValue{"text for reservations", theReservations, []string{"SET", "KEY", "text"}}
	t := one(monday, stranger(), charge(m, 1))
	if err := put(d, t); err != nil {
		return err
	}
	if err := refuses(addr, "hold under "+d.what, t.Groups[0].Subject, func() error {
		return redisstore.Across{Store: store}.Take(context.Background(), t, new(storage.Outcome))
	}); err != nil {
		return err
	}
	return errors.Join(settleForeign(store, addr), resetForeign(store, addr))
}

// settleForeign corrupts what a settlement needs.
func settleForeign(store *redisstore.Store, addr string) error {
	meters := returnable(eachKind(time.Hour))
	reserve := func() (*storage.Ticket, error) {
		t := one(monday, stranger())
		for _, m := range meters {
			t.Groups[0].Charges = append(t.Groups[0].Charges, charge(m, 2))
		}
		t.Groups[0].Reserve = time.Minute
		return t, store.Take(context.Background(), t, new(storage.Outcome))
	}
	for _, verb := range []storage.Verb{storage.Settle, storage.Release, storage.Renew} {
		try := func(what string, spoil func(t *storage.Ticket) []string) error {
			t, err := reserve()
			if err != nil {
				return err
			}
			command := spoil(t)
			if command[1] != theReservations(t) || command[0] != "HSET" { // everything except a field replaces its key
				if _, err := redistest.Command(addr, "DEL", command[1]); err != nil {
					return err
				}
			}
			if _, err := redistest.Command(addr, command...); err != nil {
				return err
			}
			return refuses(addr, fmt.Sprintf("%v, %s", verb, what), t.Groups[0].Subject, func() error {
				return store.Settle(context.Background(), settlement(t, verb), new(storage.SettleOutcome))
			})
		}
		for _, value := range damagedFields() {
			if err := try(fmt.Sprintf("reservation %q", value), func(t *storage.Ticket) []string {
				return []string{"HSET", theReservations(t), field(t.Nonce), value}
			}); err != nil {
				return err
			}
		}
		if err := try("text for reservations", func(t *storage.Ticket) []string { return []string{"SET", theReservations(t), "text"} }); err != nil {
			return err
		}
		for _, m := range meters {
			kinds := foreigners(m.Kind)
			for _, f := range []foreignValue{kinds[1], kinds[3], kinds[len(kinds)-1], kinds[len(kinds)-2]} {
				if err := try(fmt.Sprintf("%v: %s", m, f.name), func(t *storage.Ticket) []string {
					return append([]string{f.make[0], keyOf(t.Groups[0].Subject, m)}, f.make[2:]...)
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// resetForeign: a reset also removes what is corrupt.
func resetForeign(store *redisstore.Store, addr string) error {
	for _, m := range eachKind(time.Hour) {
		kinds := foreigners(m.Kind)
		for _, f := range []foreignValue{kinds[0], kinds[3], kinds[len(kinds)-1], kinds[len(kinds)-2]} {
			who := stranger()
			args := slices.Clone(f.make)
			for _, key := range []string{keyOf(who, m), reservationsKey(who)} {
				args[1] = key
				if _, err := redistest.Command(addr, args...); err != nil {
					return err
				}
			}
			if err := store.Reset(context.Background(), &storage.Group{Subject: who, Charges: []algorithm.Charge{charge(m, 1)}}); err != nil {
				return fmt.Errorf("%v, %s: reset: %w", m, f.name, err)
			}
			if left, err := dump(addr, who); left != "" {
				return fmt.Errorf("%v, %s: a reset left %q (%v)", m, f.name, left, err)
			}
		}
	}
	return nil
}

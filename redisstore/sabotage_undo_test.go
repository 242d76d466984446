package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// checkUndo undoes what a request took in one slot because another slot denied it.
func checkUndo(store *redisstore.Store, addr string) error {
	return errors.Join(undoCharges(store), undoTwice(store, addr), undoRecords(store, addr), undoLostRecords(store, addr), heldRepair(store))
}

// undoCharges: what is undone was never charged, except where denied requests count.
func undoCharges(store *redisstore.Store) error {
	meters := eachKind(time.Hour)
	for _, a := range []algorithm.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindowCounter, algorithm.SlidingWindowLog} {
		meters = append(meters, algorithm.Limit{Algorithm: a, Count: 3, Window: time.Hour, CountDenied: true}.MustCompile())
	}
	for _, m := range meters {
		for earlier := range int64(2) {
			who := stranger()
			take := func(now algorithm.Instant, cost int64) (out storage.Outcome, err error) {
				return out, store.Take(context.Background(), one(now, who, charge(m, cost)), &out)
			}
			if _, err := take(monday, earlier); err != nil {
				return err
			}
			var out storage.Outcome
			undo, err := store.Hold(one(monday, who, charge(m, 2)), &out)
			if err == nil {
				err = undo(monday + 1)
			}
			if err != nil {
				return fmt.Errorf("%v: %w", m, err)
			}
			want := earlier
			if m.CountDenied {
				want += 2
			}
			if out, err = take(monday+1, 0); err != nil || out.Decisions[0].Used != want {
				return fmt.Errorf("%v: %d used after an undo, want %d (%v)", m, out.Decisions[0].Used, want, err)
			}
		}
	}
	// A leaky bucket in which others have queued keeps their places.
	leaky, who := eachKind(time.Hour)[5], stranger()
	undo, err := store.Hold(one(monday, who, charge(leaky, 1)), new(storage.Outcome))
	if err != nil {
		return err
	}
	var out storage.Outcome
	if err := store.Take(context.Background(), one(monday+1, who, charge(leaky, 1)), &out); err != nil {
		return err
	}
	if err := undo(monday + 2); err != nil {
		return err
	}
	if err := store.Take(context.Background(), one(monday+2, who, charge(leaky, 0)), &out); err != nil || out.Decisions[0].Used != 2 {
		return fmt.Errorf("%d used of a leaky bucket after a leaver, want 2 (%v)", out.Decisions[0].Used, err)
	}
	return nil
}

// undoTwice: an undo takes effect once, and only within its time. It also removes the reservation.
func undoTwice(store *redisstore.Store, addr string) error {
	for _, after := range []time.Duration{0, 30*time.Second - time.Microsecond, 30 * time.Second} {
		t := one(monday, stranger(), charge(eachKind(time.Hour)[0], 2))
		t.Groups[0].Reserve = time.Hour
		key := reservationsKey(t.Groups[0].Subject)
		undo, err := store.Hold(t, new(storage.Outcome))
		if err != nil {
			return err
		}
		if n, err := redistest.Command(addr, "HLEN", key); n != "2" {
			return fmt.Errorf("%s fields for a reservation and a hold (%v)", n, err)
		}
		left, wanted := "0", error(nil)
		if after == 30*time.Second {
			left, wanted = "2", storage.ErrNoReservation
		}
		if err := undo(monday.Add(after)); !errors.Is(err, wanted) {
			return fmt.Errorf("undone after %v: %v, want %v", after, err, wanted)
		}
		if n, err := redistest.Command(addr, "HLEN", key); n != left {
			return fmt.Errorf("undone after %v: %s fields left, want %s (%v)", after, n, left, err)
		}
		if err := undo(monday.Add(after)); !errors.Is(err, storage.ErrNoReservation) {
			return fmt.Errorf("undone again: %v", err)
		}
	}
	return nil
}

// undoRecords: a record is as it was before, whether the request made it, was a duplicate of it or replaced
// it.
func undoRecords(store *redisstore.Store, addr string) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Hour}.MustCompile()
	t := one(monday, stranger(), charge(m, 1))
	g := &t.Groups[0]
	g.Dedup, g.Call = dedupOf(time.Hour), newCallID()
	state := func() (string, error) {
		record, err := redistest.Command(addr, "GET", recordKey(g))
		if err != nil || record == "(nil)" {
			return record, err
		}
		value, err := redistest.Command(addr, "GET", redisstore.SubjectKey(prefix, g.Subject))
		if err != nil {
			return "", err
		}
		ttl, err := redistest.Command(addr, "PTTL", recordKey(g))
		slots := []string{}
		for p := 1; p < len(value); p += 27 {
			slots = append(slots, value[p:p+27])
		}
		slices.Sort(slots)
		return fmt.Sprintf("%q %q, ends %v", record, slots, !strings.HasPrefix(ttl, "-")), err
	}
	for calls := range 4 { // the first, two duplicates, and a first one again
		before, err := state()
		if err != nil {
			return err
		}
		undo, err := store.Hold(t, new(storage.Outcome))
		if err == nil {
			err = undo(monday)
		}
		if err != nil {
			return err
		}
		// The first duplicate finds no budget yet, and leaves one with nothing used.
		if after, err := state(); err != nil || calls != 1 && after != before {
			return fmt.Errorf("after %d calls, one that was undone changed %s to %s (%v)", calls, before, after, err)
		}
		var out storage.Outcome
		if err := store.Take(context.Background(), t, &out); err != nil {
			return err
		}
		if replay := calls == 1 || calls == 2; out.Groups[0].Replay != replay {
			return fmt.Errorf("after %d calls and an undo: replay %v", calls, !replay)
		}
	}
	return nil
}

// undoLostRecords: a record that has replaced the original in the meantime is left alone.
func undoLostRecords(store *redisstore.Store, addr string) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Hour}.MustCompile()
	other := instant(monday+1) + "\x00" + strings.Repeat("\x00", 15)
	for calls := range 4 {
		for _, replace := range []string{"", other, other[:22], "text"} {
			t := one(monday, stranger(), charge(m, 1))
			g := &t.Groups[0]
			g.Dedup, g.Call = dedupOf(time.Hour), newCallID()
			for range calls {
				if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
					return err
				}
			}
			undo, err := store.Hold(t, new(storage.Outcome))
			if err != nil {
				return err
			}
			if _, err := redistest.Command(addr, "DEL", recordKey(g)); err != nil {
				return err
			}
			if replace != "" {
				if _, err := redistest.Command(addr, "SET", recordKey(g), replace); err != nil {
					return err
				}
			}
			if err := undo(monday); err != nil {
				return err
			}
			if replace == "" {
				replace = "(nil)"
			}
			if after, err := redistest.Command(addr, "GET", recordKey(g)); after != replace {
				return fmt.Errorf("after %d calls, an undo made of %q %q (%v)", calls, replace, after, err)
			}
		}
	}
	return nil
}

// heldRepair: a request that is held also repairs the date of a ban written by a wrong clock.
func heldRepair(store *redisstore.Store) error {
	t := one(monday, stranger(), charge(eachKind(time.Hour)[0], 1))
	g := &t.Groups[0]
	g.Penalty = penaltyOf(3, time.Minute, time.Hour)
	if _, err := store.Ban(context.Background(), &storage.Ban{Now: monday + seconds(864000), Subject: g.Subject, Penalty: g.Penalty, Length: time.Minute}); err != nil {
		return err
	}
	var out storage.Outcome
	for i, allowed := range []bool{false, true} {
		t.Now = monday + seconds(61*i)
		if _, err := store.Hold(t, &out); err != nil || out.Allowed != allowed {
			return fmt.Errorf("%d s after a ban of a minute was redated: allowed %v (%v)", 61*i, out.Allowed, err)
		}
	}
	return nil
}

// checkGiveBack checks logs that a settlement rewrites.
func checkGiveBack(store *redisstore.Store, addr string) error {
	const wrap = 1 << 48 // of running totals
	m := slidingLog(algorithm.MaxReservedLog, time.Hour)
	e := func(after algorithm.Instant, total int64) string { return element(monday+after, (total+wrap)%wrap) }
	long := []string{element(0, 0), e(0, 1), e(0, 4)} // the second is the reservation
	shorter := []string{element(0, 0), e(0, 1)}
	for i := range int64(2500) {
		long = append(long, e(algorithm.Instant(1+i), 5+i))
		shorter = append(shorter, e(algorithm.Instant(1+i), 2+i))
	}
	for _, c := range []struct {
		what        string
		log, expect []string // what a reservation of 3 at monday becomes when it is released
		used        int64
		newest      algorithm.Instant // of what counts, after monday
	}{
		{"a long log", long, shorter, 2501, 2500},
		{"totals that wrap within", []string{element(0, wrap-2), e(0, 1), e(1, 4)}, []string{element(0, wrap-2), e(1, 1)}, 3, 1},
		{"totals that wrapped before", []string{element(0, wrap-1), e(-1, 1), e(0, 4), e(2, 5)}, []string{element(0, wrap-1), e(-1, 1), e(2, 2)}, 3, 2},
		{"totals that wrap behind", []string{element(0, wrap-9), e(0, -4), e(0, -2), e(2, 1)}, []string{element(0, wrap-9), e(0, -5), e(2, -2)}, 7, 2},
		{"several of the instant", []string{element(0, 0), e(-1, 1), e(0, 3), e(0, 6), e(0, 8), e(1, 9)},
			[]string{element(0, 0), e(-1, 1), e(0, 3), e(0, 5), e(1, 6)}, 6, 1},
		{"less than was reserved", []string{element(0, 0), e(-1, 4), e(0, 5), e(1, 7)}, []string{element(0, 0), e(-1, 4), e(1, 6)}, 6, 1},
		{"nothing of that instant", []string{element(0, 0), e(-1, 4), e(1, 7)}, []string{element(0, 0), e(-1, 4), e(1, 7)}, 7, 1},
		{"totals that wrap, and one behind them that counts nothing", []string{element(0, wrap-1), e(0, 4), e(2, 4), e(3, 5)},
			[]string{element(0, wrap-1), e(0, 1), e(3, 2)}, 3, 3},
		{"nothing at all", nil, nil, 0, 0},
		{"nothing else", []string{element(0, 0), e(0, 3)}, []string{element(0, 0), e(0, 0)}, 0, 0},
		{"nothing newer", []string{element(0, 0), e(-1, 4), e(0, 6), e(0, 7)}, []string{element(0, 0), e(-1, 4), e(0, 4)}, 4, -1},
		{"the instant has become the base", []string{e(0, 3), e(1, 7)}, []string{e(0, 3), e(1, 7)}, 4, 1},
		{"damaged behind", []string{element(0, 0), e(0, 3), e(1, 4), e(2, 5), e(3, 6)[1:], e(4, 7)}, nil, -1, 0},
	} {
		t := one(monday, stranger(), charge(m, 3))
		t.Groups[0].Reserve = time.Hour
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
		key := redisstore.ListKey(prefix, t.Groups[0].Subject, m)
		if _, err := redistest.Command(addr, "DEL", key); err != nil {
			return err
		}
		if c.log != nil {
			if _, err := redistest.Command(addr, append([]string{"RPUSH", key}, c.log...)...); err != nil {
				return err
			}
		}
		var out storage.SettleOutcome
		s := settlement(t, storage.Release)
		s.Now = monday + 5000
		err := store.Settle(context.Background(), s, &out)
		if c.used < 0 {
			if c.expect = c.log; !errors.Is(err, storage.ErrCorrupt) {
				return fmt.Errorf("%s: %v, want ErrCorrupt", c.what, err)
			}
		} else if err != nil || out.Decisions[0].Used != c.used {
			return fmt.Errorf("%s: %+v, %v; want %d used", c.what, out, err, c.used)
		} else if want := (monday + c.newest).Add(time.Hour).Sub(s.Now); c.used > 0 && out.Decisions[0].ResetAfter != want {
			return fmt.Errorf("%s: reset after %v, want %v", c.what, out.Decisions[0].ResetAfter, want)
		}
		if after, err := redistest.Command(addr, "LRANGE", key, "0", "-1"); err != nil || after != strings.Join(c.expect, "\n") {
			return fmt.Errorf("%s: the log became %q (%v)", c.what, after[:min(200, len(after))], err)
		}
	}
	return nil
}

// checkDebt settles a log into debt: all of it counts, although it exceeds the limit.
func checkDebt(store *redisstore.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 10, Window: time.Hour, Overdraft: 20}.MustCompile()
	t := one(monday, stranger(), charge(m, 5))
	t.Groups[0].Reserve = time.Hour
	for i := range 2 {
		t.Now, t.Nonce = monday+algorithm.Instant(i), t.Nonce+1
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
	}
	s := settlement(t, storage.Settle)
	s.Overage, s.Charges[0].Cost = algorithm.OverageDebt, 15
	var out storage.SettleOutcome
	if err := store.Settle(context.Background(), s, &out); err != nil || out.Decisions[0].Used != 20 {
		return fmt.Errorf("settled 15 beside 5: %+v, %v", out, err)
	}
	return nil
}

// checkSettleDates is checkDates for settlements.
func checkSettleDates(store *redisstore.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 3, Period: algorithm.Year}.MustCompile()
	starts := [4]algorithm.Instant{monday, monday + 10, monday + 20, monday + 30}
	for _, now := range []algorithm.Instant{monday - 1, monday, monday + 29, monday + 30} {
		t := one(now, stranger(), charge(m, 1))
		t.Groups[0].Reserve = time.Hour
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
		inside := now >= starts[0] && now < starts[3]
		err := store.SettleDated(settlement(t, storage.Release), starts)
		if (err == nil) != inside || err != nil && !strings.Contains(err.Error(), "clock") {
			return fmt.Errorf("%d µs after the first start: %v", now-monday, err)
		}
	}
	return nil
}

// checkRefused settles logs that a wrong clock wrote and that have no room. What is refused, or changes
// nothing, writes nothing, not even the repaired date of the log.
func checkRefused(store *redisstore.Store, addr string) error {
	m := slidingLog(5, time.Hour)
	for _, overage := range []algorithm.Overage{algorithm.OverageDeny, algorithm.OverageAllow, algorithm.OverageDebt} {
		t := one(monday, stranger(), charge(m, 1))
		t.Groups[0].Reserve = time.Hour
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
		key := redisstore.ListKey(prefix, t.Groups[0].Subject, m)
		if _, err := redistest.Command(addr, "RPUSH", key, element(monday+seconds(9*3600), 6)); err != nil {
			return err
		}
		before, err := redistest.Command(addr, "LRANGE", key, "0", "-1")
		if err != nil {
			return err
		}
		s, out := settlement(t, storage.Settle), storage.SettleOutcome{}
		s.Charges[0].Cost, s.Overage = 2, overage
		if err := store.Settle(context.Background(), s, &out); err != nil || out.Allowed == (overage == algorithm.OverageDeny) {
			return fmt.Errorf("%v: %+v, %v", overage, out, err)
		}
		if after, err := redistest.Command(addr, "LRANGE", key, "0", "-1"); after != before {
			return fmt.Errorf("%v: %q became %q (%v)", overage, before, after, err)
		}
	}
	return nil
}

// checkClosed checks what is kept of a closed reservation: its actual costs, if there are any.
func checkClosed(store *redisstore.Store, addr string) error {
	meters := returnable(eachKind(time.Hour))
	for costly := range len(meters) {
		t := one(monday, stranger())
		for _, m := range meters {
			t.Groups[0].Charges = append(t.Groups[0].Charges, charge(m, 2))
		}
		t.Groups[0].Reserve = time.Hour
		if err := store.Take(context.Background(), t, new(storage.Outcome)); err != nil {
			return err
		}
		s := settlement(t, storage.Settle)
		want := 0
		for i := range s.Charges {
			s.Charges[i].Cost = int64(i % 2)
			if i == costly {
				s.Charges[i].Cost = 3
			}
			if s.Charges[i].Cost > 0 && s.Charges[i].Meter.Kind != algorithm.KindLeases {
				want++
			}
		}
		if err := store.Settle(context.Background(), s, new(storage.SettleOutcome)); err != nil {
			return err
		}
		kept, err := redistest.Command(addr, "HGET", theReservations(t), field(t.Nonce))
		if err != nil || len(kept) != 8+20*want || kept[0] != 1 {
			return fmt.Errorf("%d bytes kept of a closed reservation with %d costs: %q (%v)", len(kept), want, kept, err)
		}
	}
	return nil
}

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// lateKinds returns the limits of eachKind that can be charged late.
func lateKinds(window time.Duration) []*algorithm.Meter {
	return slices.DeleteFunc(eachKind(window), func(m *algorithm.Meter) bool { return !m.CanChargeLate() })
}

// admittedAt returns the counter of a node that has admitted a cost at each of some instants.
func admittedAt(m *algorithm.Meter, cost int64, at ...algorithm.Instant) storage.LateAmount {
	a := storage.LateAmount{Meter: m}
	for _, now := range at {
		if m.Kind == algorithm.KindLog {
			w := m.WeighLog(a.Log, now, 0)
			w.Passes = true
			a.Log = m.RecordLog(a.Log, w, cost)
			continue
		}
		a.State, _, _ = m.Weigh(a.State, now, 0, 0)
		a.State = m.Charge(a.State, cost)
	}
	return a
}

func lateCharge(now algorithm.Instant, who storage.Subject, amounts ...storage.LateAmount) *storage.LateCharge {
	return &storage.LateCharge{Now: now, Subject: who, Nonce: uint64(strangers.Add(1)), Amounts: amounts}
}

func (r scenarioRecorder) chargeLate(now algorithm.Instant, who storage.Subject, amounts ...storage.LateAmount) {
	r.ChargeLate(context.Background(), lateCharge(now, who, amounts...))
}

// lateEntries: late entries before, between and after those of a log that is longer than what may be
// rewritten, of one whose newest entry was released, and of one that is almost full.
func lateEntries(r scenarioRecorder) {
	long := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 3000, Window: time.Hour}.MustCompile()
	for _, entries := range []algorithm.Instant{999, 1000, 1001, 1002} {
		for _, at := range []algorithm.Instant{0, 1, 2, 3} {
			who := stranger()
			for i := range entries {
				r.take(one(monday+i, who, charge(long, 1)))
			}
			r.chargeLate(monday+5000, who, admittedAt(long, 2, monday+at, monday+500, monday+entries-1, monday+2000))
			r.take(one(monday+5000, who, charge(long, 0)))
			for i := range algorithm.Instant(4) {
				r.take(one(monday+i+seconds(3600), who, charge(long, 0)))
			}
			for _, i := range []algorithm.Instant{2, 9, 500} { // when some have left the window
				now := monday + i + seconds(3600)
				r.chargeLate(now, who, admittedAt(long, 1, monday+i, monday+i+1, monday+i+2, monday+i+3, monday+500))
				r.take(one(now, who, charge(long, 0)))
				r.take(one(now+2, who, charge(long, 0)))
			}
		}
	}
	full := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: algorithm.MaxLog, Window: time.Hour, Overdraft: 9}.MustCompile()
	for _, cost := range []int64{algorithm.MaxLog - 3, algorithm.MaxLog - 2, algorithm.MaxLog} {
		who := stranger()
		r.take(one(monday, who, charge(full, cost)))
		r.chargeLate(monday, who, admittedAt(full, 1, monday, monday, monday, monday))
		r.take(one(monday, who, charge(full, 0)))
	}
	short := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 9, Window: time.Hour, Overdraft: 3}.MustCompile()
	for _, at := range aroundIt(monday) { // what has just left the window does not return with an earlier clock
		who := stranger()
		r.chargeLate(monday+seconds(3600), who, admittedAt(short, 1, at))
		r.take(one(monday+seconds(3600)-2, who, charge(short, 0)))
	}
	for _, at := range []algorithm.Instant{0, 10, 19, 20, 21, 30} {
		for released := range 3 {
			who := stranger()
			var last *storage.Ticket
			for i := range algorithm.Instant(3) {
				last = one(monday+10*i, who, charge(short, 2))
				last.Groups[0].Reserve = time.Minute
				r.take(last)
			}
			if released > 0 {
				r.settle(monday+40, last, storage.Release, 0)
			}
			back := monday + 40
			if released > 1 { // time stays at the newest
				back = monday + 15
			}
			r.chargeLate(back, who, admittedAt(short, 3, monday+at, monday+at, monday+at+5))
			r.take(one(back, who, charge(short, 1)))
			for i := range algorithm.Instant(4) {
				r.take(one(monday+10*i+seconds(3600), who, charge(short, 0)))
			}
		}
	}
}

// lateCounters: late counters of the windows around now, to the microsecond.
func lateCounters(r scenarioRecorder) {
	large := algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1e9, Window: 20 * time.Second}.MustCompile()
	for i := range algorithm.Instant(20) { // in between two ticks
		now, who := monday-monday%seconds(20)+seconds(5)+i*53, stranger()
		r.take(one(now, who, charge(large, 9e8)))
		r.chargeLate(now, who, admittedAt(large, 1e9, now-seconds(20)))
		r.take(one(now, who, charge(large, 0)))
		r.take(one(now+seconds(10), who, charge(large, 0)))
	}
	for _, m := range append(lateKinds(time.Second), lateKinds(20*time.Second)...) {
		limit := m.Limit()
		limit.Overdraft = 2
		with := limit.MustCompile()
		for _, m := range []*algorithm.Meter{m, with} {
			start := monday - monday%algorithm.Instant(m.Window)
			for _, ago := range []algorithm.Instant{0, 1, 2} {
				for _, off := range []algorithm.Instant{-1, 0, 1} {
					for _, cost := range []int64{1, 3} {
						who := stranger()
						now := start + 2*algorithm.Instant(m.Window) + 1
						r.take(one(now-2, who, charge(m, 1)))
						if ago > 1 {
							now += algorithm.Instant(m.Window)/3 + 500
						}
						r.take(one(now, who, charge(m, 1)))
						for _, at := range []algorithm.Instant{now - ago*algorithm.Instant(m.Window) + off, now - algorithm.Instant(m.Window)*2/3} {
							r.chargeLate(now, who, admittedAt(m, cost, at), admittedAt(spacious(), 1, at))
							r.take(one(now, who, charge(m, 0)))
						}
						for i := range algorithm.Instant(5) {
							r.take(one(now+i*algorithm.Instant(m.Window)/2, who, charge(m, 0)))
						}
					}
				}
			}
		}
	}
}

// checkLate checks what a late charge leaves behind: when it ends, and what it does not overwrite.
func checkLate(store *redisstore.Store, addr string) error {
	return errors.Join(lateEnds(store, addr), lateForeign(store, addr))
}

// lateEnds: the state ends as after a charge. The record of a late charge ends when nothing of it can count
// any more, or after a day.
func lateEnds(store *redisstore.Store, addr string) error {
	for _, now := range clocks {
		for _, window := range []time.Duration{oddWindow, time.Hour, 30 * time.Hour} {
			for _, m := range lateKinds(window) {
				if m.Kind == algorithm.KindCalendar && window == 30*time.Hour {
					continue
				}
				who, since := stranger(), time.Now()
				at := now
				if now == 0 {
					at = algorithm.InstantOf(since)
				}
				for _, cost := range []int64{1, 1, 9} { // the last one is cut
					c := lateCharge(now, who, admittedAt(m, cost, at))
					if err := store.ChargeLate(context.Background(), c); err != nil {
						return err
					}
					least := algorithm.InstantOf(since) + algorithm.Instant(min(m.Life, storage.LateChargeTTL.Microseconds()))
					if err := endsWithin(addr, redisstore.LateKey(prefix, who, c.Nonce), since, least, now != 0); err != nil {
						return err
					}
					var out storage.Outcome
					if err := store.Take(context.Background(), one(now, who, charge(m, 0)), &out); err != nil {
						return err
					}
					if err := ends(addr, who, out, []*algorithm.Meter{m}, now != 0); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// endsWithin is endsAt for an instant that is known only to within the time since.
func endsWithin(addr, key string, since time.Time, least algorithm.Instant, given bool) error {
	var at, left int64
	reply, err := redistest.Command(addr, "EVAL", `return string.format('%.0f %.0f', redis.call('PEXPIRETIME', KEYS[1]), redis.call('PTTL', KEYS[1]))`, "1", key)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(reply, &at, &left); err != nil {
		return err
	}
	if given && left >= time.Hour.Milliseconds()-60_000 {
		return nil
	}
	most := least + algorithm.Instant(time.Since(since).Microseconds()) + 3000
	if end := algorithm.Instant(at * 1000); given || end < least || end > most {
		return fmt.Errorf("%s ends %v after it should, in %d ms", key, end.Sub(least), left)
	}
	return nil
}

// lateForeign: foreign data under the keys of a late charge is an error, and nothing is overwritten.
func lateForeign(store *redisstore.Store, addr string) error {
	put := func(f foreignValue, key string) error {
		args := slices.Clone(f.make)
		args[1] = key
		_, err := redistest.Command(addr, args...)
		return err
	}
	meters := lateKinds(time.Hour)
	var errs []error
	for _, m := range meters {
		for _, f := range foreigners(m.Kind) {
			who := stranger()
			if err := put(f, keyOf(who, m)); err != nil {
				return err
			}
			var amounts []storage.LateAmount
			for _, m := range meters { // a corrupt one among valid ones
				amounts = append(amounts, admittedAt(m, 1, monday-5))
			}
			c := lateCharge(monday, who, amounts...)
			errs = append(errs, refuses(addr, fmt.Sprintf("%v: a late charge over %s", m, f.name), who, func() error {
				return store.ChargeLate(context.Background(), c)
			}))
		}
	}
	for _, f := range append(otherTypes, foreignValue{"list", []string{"RPUSH", "KEY", "1"}}) {
		c := lateCharge(monday, stranger(), admittedAt(meters[0], 1, monday))
		if err := put(f, redisstore.LateKey(prefix, c.Subject, c.Nonce)); err != nil {
			return err
		}
		errs = append(errs, refuses(addr, "a late charge whose record is a "+f.name, c.Subject, func() error {
			return store.ChargeLate(context.Background(), c)
		}))
	}
	return errors.Join(errs...)
}

func TestLateCharges(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	server, store := serve(t)
	if err := checkLate(store, server.Addr); err != nil {
		t.Error(err)
	}
}

// The keys of a late charge share the subject's slot, so that a cluster can charge it in one script.
func TestLateChargeIsOneSlot(t *testing.T) {
	who := stranger()
	key := redisstore.LateKey(prefix, who, 1<<63)
	if tagged := prefix + "{" + who.String() + "}a"; key[:len(tagged)] != tagged {
		t.Errorf("the record is kept at %s", key)
	}
}

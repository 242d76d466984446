package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// checkInvalidLate sends late charges that are invalid for every store: an error says what is wrong, and
// nothing is charged.
func checkInvalidLate(nodes []storage.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: 24 * time.Hour}.MustCompile()
	log := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 100, Window: 24 * time.Hour}.MustCompile()
	leaky := algorithm.Limit{Algorithm: algorithm.LeakyBucket, Count: 5, Window: time.Hour}.MustCompile()
	permits := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 5, Window: time.Hour}.MustCompile()
	var errs []error
	for _, v := range []struct {
		name, want string
		spoil      func(c *storage.LateCharge)
	}{
		{"no nonce", "no nonce", func(c *storage.LateCharge) { c.Nonce = 0 }},
		{"no amounts", "0 amounts", func(c *storage.LateCharge) { c.Amounts = nil }},
		{"18 amounts", "18 amounts", func(c *storage.LateCharge) { c.Amounts = slices.Repeat(c.Amounts, 9) }},
		{"no meter", "no meter", func(c *storage.LateCharge) { c.Amounts[0].Meter = nil }},
		{"the same twice", "twice", func(c *storage.LateCharge) { c.Amounts = slices.Repeat(c.Amounts, 2) }},
		{"a leaky bucket", "leaky_bucket", func(c *storage.LateCharge) { c.Amounts[0].Meter = leaky }},
		{"permits", "concurrency", func(c *storage.LateCharge) { c.Amounts[0].Meter = permits }},
		{"before the epoch", "now -1", func(c *storage.LateCharge) { c.Now = -1 }},
		{"after the last instant", "now 4503599627370496", func(c *storage.LateCharge) { c.Now = algorithm.MaxInstant + 1 }},
		{"a negative amount", "Used:-1", func(c *storage.LateCharge) { c.Amounts[0].State.Used = -1 }},
		{"a negative previous amount", "Previous:-1", func(c *storage.LateCharge) { c.Amounts[0].State.Previous = -1 }},
		{"dated before the epoch", "At:-1", func(c *storage.LateCharge) { c.Amounts[0].State.At = -1 }},
		{"dated after the last instant", "At:4503599627370496", func(c *storage.LateCharge) { c.Amounts[0].State.At = algorithm.MaxInstant + 1 }},
		{"a log that is too long", "1001 log entries", func(c *storage.LateCharge) {
			c.Amounts[1].Log = make([]algorithm.Entry, algorithm.MaxLateEntries+1)
		}},
		{"an entry before the epoch", "log entry 1", func(c *storage.LateCharge) { c.Amounts[1].Log[1].At = -1 }},
		{"an entry after the last instant", "log entry 1", func(c *storage.LateCharge) { c.Amounts[1].Log[1].At = algorithm.MaxInstant + 1 }},
		{"a total that falls", "log entry 2", func(c *storage.LateCharge) { c.Amounts[1].Log[2].Value = 0 }},
		{"a negative total", "log entry 0", func(c *storage.LateCharge) { c.Amounts[1].Log[0].Value = -1 }},
	} {
		a, b := lateAmount{meter: m}, lateAmount{meter: log}
		for range 2 {
			a.admit(scenarioStart, 1)
			b.admit(scenarioStart, 1)
		}
		who := newSubject()
		c := &storage.LateCharge{Now: scenarioStart, Subject: who, Nonce: 7, Amounts: []storage.LateAmount{a.amount(), b.amount()}}
		v.spoil(c)
		err := safely(func() error { return nodes[0].(storage.LateCharger).ChargeLate(context.Background(), c) })
		if refusalOf(err) != algorithm.ErrInvalid || !strings.Contains(err.Error(), v.want) {
			errs = append(errs, fmt.Errorf("%s: error is %v, want one that wraps %q and says %q", v.name, err, algorithm.ErrInvalid, v.want))
		}
		for _, m := range []*algorithm.Meter{m, log} {
			peek := singleCharge(scenarioStart, m, 0, 0, 0)
			if out, err := take(nodes, []storage.Subject{who}, &peek); err != nil || out.Decisions[0].Used != 0 {
				errs = append(errs, fmt.Errorf("%s: %d are used then (%w)", v.name, out.Decisions[0].Used, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkLongLog charges late before, between and after the many entries of a log. What would have to be
// inserted before more than the last MaxLateEntries of them is not charged; everything else is.
func checkLongLog(nodes []storage.Store) error {
	const entries = algorithm.MaxLateEntries + 200
	m := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 5000, Window: time.Hour}.MustCompile()
	start := scenarioStart
	for _, v := range []struct {
		name    string
		late    []amountChange
		charged int64
	}{
		{"before the last ones", []amountChange{{start, 3}, {start + 199, 4}}, 0},
		{"one of two before them", []amountChange{{start + 199, 3}, {start + 200, 4}}, 4},
		{"between two", []amountChange{{start + 200, 1}, {start + 700, 2}, {start + 700, 3}}, 6},
		{"behind all", []amountChange{{start + entries, 1}, {start + 2*entries, 2}}, 3},
	} {
		who := []storage.Subject{newSubject()}
		for i := range algorithm.Instant(entries) {
			s := singleCharge(start+1+i, m, 1, 0, 0) // one each µs, starting with the first
			if _, err := take(nodes, who, &s); err != nil {
				return err
			}
		}
		a := lateAmount{meter: m}
		for _, f := range v.late {
			a.admit(f.at, f.amount)
		}
		now := start + 3*entries
		s := lateStep(now, 7, a)
		if _, err := play(nodes, who, &s); err != nil {
			return err
		}
		// The sum shows how much was charged, and how it falls over time shows where.
		admitted := slices.Clone(v.late[len(v.late)-keptEntries(v.late, v.charged):])
		for i := range algorithm.Instant(entries) {
			admitted = append(admitted, amountChange{start + 1 + i, 1})
		}
		for _, at := range []algorithm.Instant{now, start + 199, start + 200, start + 201, start + 699, start + 700, start + entries, start + 2*entries, start + 2*entries + 1} {
			if at < now {
				at += algorithm.Instant(m.Window)
			}
			peek := singleCharge(at, m, 0, 0, 0)
			out, err := take(nodes, who, &peek)
			if err != nil {
				return err
			}
			if want, _ := heldAt(m, admitted, at); out.Decisions[0].Used != want {
				return fmt.Errorf("%s: %d are used %v later, want %d", v.name, out.Decisions[0].Used, at.Sub(now), want)
			}
		}
	}
	return nil
}

// keptEntries returns how many of the newest entries make up a sum.
func keptEntries(late []amountChange, sum int64) (n int) {
	for i := len(late) - 1; i >= 0 && sum > 0; i-- {
		sum -= late[i].amount
		n++
	}
	return n
}

// checkFullLate charges a full sliding counter late, at a clock that is far behind. Nothing counts, so the counter is
// not dated back either. Stores that divide in floating point must round before they add: 1 + 1.68 - 0.68 is not 2.
func checkFullLate(nodes []storage.Store) error {
	m := algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: 1, Window: 7 * time.Second, Overdraft: 1}.MustCompile()
	window := algorithm.Instant(m.Window)
	start := scenarioStart - scenarioStart%window
	for i := range window / 100_000 {
		full, late := lateAmount{meter: m}, lateAmount{meter: m}
		full.admit(start-1, 1)
		full.admit(start, 1)
		behind := start - 3*window + 100_000*i
		late.admit(behind, 1)
		model, cast := NewModel(), newSubjects(1)
		for _, s := range []step{lateStep(start, 1, full), lateStep(behind, 2, late), singleCharge(start, m, 0, 0, 0)} {
			want, got, err := playBoth(model, nodes, cast, &s)
			if err != nil {
				return err
			}
			if diff := difference(want, got); diff != "" {
				return fmt.Errorf("%v, %v into the window (-model +store):\n%s", &s, time.Duration(i)*100*time.Millisecond, diff)
			}
		}
	}
	return nil
}

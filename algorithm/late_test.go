package algorithm

import (
	"testing"
	"time"
)

// The twin suites compare the stores with these functions; this test checks the functions themselves.
func TestAddLateNeverShrinks(t *testing.T) {
	now := InstantOf(time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC))
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 10, Window: time.Minute},
		{Algorithm: FixedWindow, Count: 10, Period: Day},
		{Algorithm: SlidingWindowCounter, Count: 10, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 10, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 10, Window: time.Minute, Refill: Interval},
	} {
		for _, overdraft := range []int64{0, 4} {
			l.Overdraft = overdraft
			m := l.MustCompile()
			most := m.Capacity + m.Overdraft
			for _, used := range []int64{0, 1, 9, 10, 14, 30} { // 30: the limit was lowered
				for _, late := range []int64{0, 1, 7, 1 << 52} {
					for _, off := range []Instant{-3 * Instant(m.Window), -Instant(m.Window), -1, 0, 1, Instant(m.Window), MaxInstant - now} {
						s, _, _ := m.Weigh(State{}, now, 0, 0)
						s = m.Charge(s, used)
						before, _, _ := m.Weigh(s, now, 0, 0)
						after, added := m.AddLate(s, State{At: now + off, Used: late, Previous: late}, now)
						if after.Used < before.Used || after.Previous < before.Previous || after.At != before.At {
							t.Errorf("%v: %+v became %+v", m, before, after)
						}
						if got := m.used(after, now); got > max(most, m.used(before, now)) {
							t.Errorf("%v: %d used of %d", m, got, most)
						}
						if added != (after != before) {
							t.Errorf("%v: added is %v from %+v to %+v", m, added, before, after)
						}
					}
				}
			}
		}
	}
}

// Inserting in between must leave rising totals and ordered instants, whatever was there.
func TestInsertLateKeepsOrder(t *testing.T) {
	m := Limit{Algorithm: SlidingWindowLog, Count: 20, Window: time.Minute}.MustCompile()
	now := Instant(time.Hour / time.Microsecond)
	log := []Entry{{0, 5}, {now - 40, 7}, {now - 20, 8}, {now - 20, 9}, {now - 10, 9}} // the newest was given back
	for _, late := range [][]Entry{
		{{}, {now - 50, 1}}, {{}, {now - 40, 1}}, {{}, {now - 30, 1}, {now - 30, 2}},
		{{}, {now - 20, 3}}, {{}, {now - 10, 3}}, {{}, {now - 5, 3}}, {{}, {now + 5, 3}},
		{{}, {now - 50, 1}, {now - 30, 2}, {now - 15, 4}, {now - 1, 8}},
	} {
		entries := m.LateEntries(log, late, now)
		got := m.InsertLate(append([]Entry(nil), log...), entries, now)
		want := late[len(late)-1].Value + 4
		if sum := m.WeighLog(got, now, 0).Sum; sum != want {
			t.Errorf("%v: sum %d, want %d: %v", late, sum, want, got)
		}
		for i := 1; i < len(got); i++ {
			if got[i].At < got[i-1].At || got[i].Value < got[i-1].Value {
				t.Errorf("%v: entry %d of %v", late, i, got)
			}
		}
	}
}

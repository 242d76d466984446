package storetest

import (
	"fmt"
	"math"

	"github.com/penstock-io/penstock/algorithm"
)

// lateMeter returns a small meter that can be charged late, with or without an overdraft.
func (t *liveTrace) lateMeter() *algorithm.Meter {
	for {
		l := smallMeter(t.r, pick(t.r, kinds...)).Limit()
		if l.Overdraft = 0; often(t.r, 50) {
			l.Overdraft = t.r.Int64N(20)
		}
		if m, err := l.Compile(); err == nil && m.CanChargeLate() {
			return m
		}
	}
}

// admitBefore admits some requests in the last windows up to now, without the store.
func (t *liveTrace) admitBefore(m *algorithm.Meter) (lateAmount, []amountChange) {
	a := lateAmount{meter: m}
	var admitted []amountChange
	at := t.now - algorithm.Instant(t.r.Int64N(2*m.Window))
	for range 1 + t.r.IntN(8) {
		f := amountChange{at, 1 + t.r.Int64N(max(1, m.Capacity/4))}
		a.admit(f.at, f.amount)
		admitted = append(admitted, f)
		at += algorithm.Instant(t.r.Int64N(int64(t.now-at) + 1))
	}
	return a, admitted
}

// lateCountsOnce charges a list of admissions late, and compares the resulting usage with what still counts
// of that list by independent arithmetic.
func lateCountsOnce(t *liveTrace) error {
	m := t.lateMeter()
	most := m.Capacity + m.Overdraft
	for range 6 {
		t.now += algorithm.Instant(t.r.Int64N(m.Window))
		if t.now > latest {
			return nil
		}
		if _, err := t.ask(group(m, 1+t.r.Int64N(m.Capacity))); err != nil {
			return err
		}
		before, err := t.peek(m)
		if err != nil {
			return err
		}
		a, admitted := t.admitBefore(m)
		counts := stillCounts(m, admitted, t.now)
		s := lateStep(t.now, t.r.Uint64()|1, a)
		for again := range 3 {
			if err := t.chargeLate(s); err != nil {
				return err
			}
			after, err := t.peek(m)
			if err != nil {
				return err
			}
			least, atMost := before.Used+int64(math.Floor(counts-1e-6)), before.Used+int64(math.Ceil(counts-1e-6))
			switch m.Kind {
			case algorithm.KindBucket: // the usage is rounded up twice
				least--
			case algorithm.KindCounter: // what the previous window had no room for is cut off
				current, _ := heldAt(perWindow(m), admitted, t.now)
				least = before.Used + current
			}
			least, atMost = max(before.Used, min(least, most)), max(before.Used, min(atMost, most))
			if after.Used < least || after.Used > atMost {
				return fmt.Errorf("%v: charged late %d times, %v of %v count: %d used, then %d, want from %d to %d",
					m, again+1, counts, admitted, before.Used, after.Used, least, atMost)
			}
		}
	}
	return nil
}

// perWindow returns a fixed window of the same length.
func perWindow(m *algorithm.Meter) *algorithm.Meter {
	return algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: m.Count, Window: m.Limit().Window}.MustCompile()
}

// stillCounts returns how much of the admissions, which are in order, counts at an instant that is not
// earlier.
func stillCounts(m *algorithm.Meter, admitted []amountChange, now algorithm.Instant) (sum float64) {
	windows := func(at algorithm.Instant) int64 { return int64(at) / m.Window }
	last := now
	for i, f := range admitted {
		amount := float64(f.amount)
		switch m.Kind {
		case algorithm.KindBucket, algorithm.KindInterval:
			if i > 0 {
				sum = drained(m, sum, last, f.at)
			}
			sum = min(sum, float64(m.Capacity+m.Overdraft)) + amount
			last = f.at
		case algorithm.KindCounter:
			left := 1 - float64(int64(now)%m.Window/m.Tick)/float64(m.Ticks)
			switch windows(now) - windows(f.at) {
			case 0:
				sum += amount
			case 1:
				sum += amount * left
			}
		default:
			if n, _ := heldAt(m, []amountChange{f}, now); n > 0 {
				sum += amount
			}
		}
	}
	if m.Kind == algorithm.KindBucket || m.Kind == algorithm.KindInterval {
		return drained(m, min(sum, float64(m.Capacity+m.Overdraft)), last, now)
	}
	return sum
}

// drained returns what is left of a bucket's level.
func drained(m *algorithm.Meter, level float64, from, to algorithm.Instant) float64 {
	if m.Kind == algorithm.KindInterval {
		return max(0, level-float64(m.Count*(int64(to)/m.Window-int64(from)/m.Window)))
	}
	ticks := int64(to)/m.Tick - int64(from)/m.Tick
	return max(0, level-float64(m.Count)*float64(ticks)/float64(m.Ticks))
}

func (t *liveTrace) chargeLate(s step) error {
	a, err := t.play(s)
	if err == nil && a.refusal != nil {
		err = a.refusal
	}
	return err
}

// lateHarmsNobody charges late with the dates of a wrong clock. Usage never falls, nor exceeds what the
// overdraft allows; nothing is blocked longer than the limit could block it; and other subjects are not
// affected.
func lateHarmsNobody(t *liveTrace) error {
	m := t.lateMeter()
	if _, err := t.ask(group(m, m.Capacity)); err != nil {
		return err
	}
	before, err := t.peek(m)
	if err != nil {
		return err
	}
	a := lateAmount{meter: m}
	ahead := algorithm.Instant(pick(t.r, 1, m.Window-1, m.Window, m.Window+1, 2*m.Window, 100*m.Window, int64(latest-t.now)))
	a.admit(min(t.now+ahead, latest), 1+t.r.Int64N(m.Capacity))
	if err := t.chargeLate(lateStep(t.now, t.r.Uint64()|1, a)); err != nil {
		return err
	}
	after, err := t.peek(m)
	if err != nil {
		return err
	}
	if after.Used < before.Used || after.Used > m.Capacity+m.Overdraft {
		return fmt.Errorf("%v: %d used, after a late charge from the future %d", m, before.Used, after.Used)
	}
	t.now += algorithm.Instant(m.Life)
	if t.now > latest {
		return nil
	}
	if d, err := t.peek(m); err != nil || d.Used != 0 {
		return fmt.Errorf("%v: when nothing can count any more, %d are used (%w)", m, d.Used, err)
	}
	other := singleGroup(t.now, 1, group(m, 0))
	other.who = []int{1}
	out, err := t.play(other)
	if err != nil || out.outcome.Decisions[0].Used != 0 {
		return fmt.Errorf("%v: another subject is charged (%w)", m, err)
	}
	return nil
}

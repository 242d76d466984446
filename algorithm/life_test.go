package algorithm

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLifeCode(t *testing.T) {
	longest := (2 * MaxWindow).Microseconds() // a sliding counter's
	lives := []int64{0, 1, 2, longest - 1, longest}
	for shift := range 46 {
		for _, off := range []int64{-1, 0, 1} {
			lives = append(lives, 1<<shift+off, 15<<shift+off, 9<<shift+off)
		}
	}
	for _, life := range lives {
		if life <= longest {
			checkLife(t, life)
		}
	}
	rapid.Check(t, func(t *rapid.T) { checkLife(t, rapid.Int64Range(0, longest).Draw(t, "life")) })

	if LifeCode(-1) != 0 || CodeLife(0) != 0 {
		t.Error("what has no life is not coded 0")
	}
}

func checkLife(t rapid.TB, life int64) {
	t.Helper()
	const unit = 1 << lifeUnit
	code := LifeCode(life)
	if got := CodeLife(code); got < life || got > life+life/8+unit {
		t.Errorf("%d µs is coded %d, which stands for %d", life, code, got)
	}
	if next := LifeCode(life + 1); next < code || next > code+1 {
		t.Errorf("the code of %d µs is %d, that of one more %d", life, code, next)
	}
}

func TestCodeLife(t *testing.T) {
	for code := uint8(1); code != 0; code++ {
		if CodeLife(code) <= CodeLife(code-1) {
			t.Errorf("code %d stands for %d µs and %d for %d", code-1, CodeLife(code-1), code, CodeLife(code))
		}
		if back := LifeCode(CodeLife(code)); back != code {
			t.Errorf("code %d reads back as %d", code, back)
		}
	}
}

// A life must not end while the state still matters: forgetting the state then changes no answer.
func TestLifeIsLongEnough(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute},
		{Algorithm: FixedWindow, Count: 5, Period: Hour},
		{Algorithm: FixedWindow, Count: 5, Period: Day},
		{Algorithm: FixedWindow, Count: 5, Period: Week},
		{Algorithm: FixedWindow, Count: 5, Period: Month},
		{Algorithm: FixedWindow, Count: 5, Period: Year},
		{Algorithm: SlidingWindowCounter, Count: 5, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 7, Window: time.Minute, Burst: 3},
		{Algorithm: TokenBucket, Count: 7, Window: time.Second, Burst: 30},
		{Algorithm: TokenBucket, Count: 7, Window: 24 * time.Hour},
		{Algorithm: TokenBucket, Count: 7, Window: time.Minute, Burst: 30, Refill: Interval},
		{Algorithm: LeakyBucket, Count: 7, Window: time.Minute, Queue: 30},
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: 50},
		{Algorithm: SlidingWindowCounter, Count: 5, Window: time.Minute, Overdraft: 50},
		{Algorithm: TokenBucket, Count: 7, Window: time.Minute, Burst: 3, Overdraft: 50},
		{Algorithm: TokenBucket, Count: 7, Window: time.Second, Overdraft: 1},
		{Algorithm: TokenBucket, Count: 7, Window: 24 * time.Hour, Overdraft: 20},
		{Algorithm: TokenBucket, Count: 7, Window: time.Minute, Burst: 3, Refill: Interval, Overdraft: 50},
	} {
		m := compile(t, l)
		for _, at := range []time.Duration{0, 1234567 * time.Microsecond, 59*time.Second + 999999*time.Microsecond, 31 * 24 * time.Hour} {
			now := epoch.Add(at)
			s, _, _ := m.Weigh(State{}, now, m.Capacity, AnyDelay)
			s = m.Charge(s, m.Capacity+m.Overdraft) // as deep in debt as can be
			after, passes, _ := m.Weigh(s, s.At+Instant(m.Life), m.Capacity, 0)
			if after.Used != 0 || after.Previous != 0 || !passes {
				t.Errorf("%v: %+v lives %d µs and is then still %+v", l, s, m.Life, after)
			}
			if m.calendar == nil && m.Life > m.Peek(s, s.At).ResetAfter.Microseconds()+2*m.Tick {
				t.Errorf("%v: %+v lives %d µs and is told to be reset after %v", l, s, m.Life, m.Peek(s, s.At).ResetAfter)
			}
		}
	}
}

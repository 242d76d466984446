package algorithm

import (
	"testing"
	"time"
)

// A state is reported as repaired exactly if it lies further ahead than its window: only then must a denial
// write, or requests would be denied until the wrong clock's time.
func TestRepaired(t *testing.T) {
	const w = time.Minute
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 4, Window: w},
		{Algorithm: SlidingWindowCounter, Count: 4, Window: w},
		{Algorithm: TokenBucket, Count: 4, Window: w},
		{Algorithm: TokenBucket, Count: 4, Window: w, Refill: Interval},
		{Algorithm: LeakyBucket, Count: 4, Window: w, Queue: 3},
	} {
		m := compile(t, l)
		used := m.Charge(State{At: epoch}, 3)
		for _, test := range []struct {
			now      time.Duration // of the request, relative to the state
			at       time.Duration // of the state after it
			left     int64         // of the 3
			repaired bool
		}{
			{now: 0, at: 0, left: 3},
			{now: -w, at: 0, left: 3},
			{now: -w - time.Microsecond, at: -2 * w, left: 3, repaired: true},
			{now: -1000 * w, at: -1000 * w, left: 3, repaired: true},
			{now: 2 * w, at: 2 * w, left: 0},
		} {
			now := epoch.Add(test.now)
			s, _, repaired := m.Weigh(used, now, 1, AnyDelay)
			at := epoch.Add(test.at)
			if test.repaired && (m.Kind == KindBucket || m.Kind == KindLeaky) {
				at = now // and not the start of its window
			}
			want := m.Charge(State{At: at}, test.left)
			if s != want || repaired != test.repaired {
				t.Errorf("%v: called %v from its state: %+v, repaired %v; want %+v, %v", l, test.now, s, repaired, want, test.repaired)
			}
		}
	}
}

// In the next window, a counter remembers the previous one, and that is not a repair.
func TestCounterMovesOn(t *testing.T) {
	m := compile(t, Limit{Algorithm: SlidingWindowCounter, Count: 4, Window: time.Minute})
	for at, want := range map[time.Duration]State{
		59 * time.Second:  {At: epoch, Used: 3, Previous: 2},
		60 * time.Second:  {At: epoch.Add(time.Minute), Previous: 3},
		119 * time.Second: {At: epoch.Add(time.Minute), Previous: 3},
		120 * time.Second: {At: epoch.Add(2 * time.Minute)},
		time.Hour:         {At: epoch.Add(time.Hour)},
	} {
		if s, _, repaired := m.Weigh(State{At: epoch, Used: 3, Previous: 2}, epoch.Add(at), 0, 0); s != want || repaired {
			t.Errorf("after %v: %+v, repaired %v; want %+v", at, s, repaired, want)
		}
	}
	s, _, repaired := m.Weigh(State{At: epoch, Used: 3, Previous: 2}, epoch.Add(-time.Hour), 0, 0)
	if want := (State{At: epoch.Add(-time.Hour), Used: 3, Previous: 2}); s != want || !repaired {
		t.Errorf("an hour before: %+v, repaired %v; want %+v", s, repaired, want)
	}
}

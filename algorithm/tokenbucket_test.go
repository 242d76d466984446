package algorithm

import (
	"testing"
	"time"
)

func TestTokenBucketContinuous(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"a burst, then one each sixth of a second", Limit{Algorithm: TokenBucket, Count: 6, Window: time.Second, Burst: 2}, `
			0s         1 pass 1 1 - 166.667ms
			0s         1 pass 2 0 - 333.334ms
			0s         1 deny 2 0 166.667ms 333.334ms
			166.666ms  1 deny 2 0 1us 166.668ms
			166.667ms  1 pass 2 0 - 333.333ms`},
		{"the burst is the count where none is given", Limit{Algorithm: TokenBucket, Count: 3, Window: 60 * time.Second}, `
			0s  3 pass 3 0 - 60s
			10s 1 deny 3 0 10s 50s
			20s 1 pass 3 0 - 60s
			40s 1 pass 3 0 - 60s
			59s 2 deny 3 0 21s 41s
			59s 0 pass 3 0 - 41s
			59s 4 deny 3 0 never 41s
			80s 2 pass 3 0 - 60s`},
		{"an idle bucket is full, not fuller", Limit{Algorithm: TokenBucket, Count: 1, Window: time.Second, Burst: 2}, `
			0s      2 pass 2 0 - 2s
			1000s   2 pass 2 0 - 2s
			1000s   1 deny 2 0 1s 2s
			1001.5s 1 pass 2 0 - 1.5s       # 1.5 were in it`},
		{"a day is counted in seconds, wherever within one a charge falls", Limit{Algorithm: TokenBucket, Count: 86400, Window: 24 * time.Hour, Burst: 1}, `
			0.7s      1 pass 1 0 - 300ms
			0.999999s 1 deny 1 0 1us 1us
			1s        1 pass 1 0 - 1s`},
		{"clock steps back within reach: time stands still", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 2}, `
			100s  2 pass 2 0 - 20s
			90s   1 deny 2 0 20s 30s
			100s  1 deny 2 0 10s 20s
			110s  1 pass 2 0 - 20s
			105s  1 deny 2 0 15s 25s`},
		{"what passes while time stands still is charged at that time", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 2}, `
			100s  1 pass 1 1 - 10s
			95s   1 pass 2 0 - 25s
			100s  1 deny 2 0 10s 20s`},
		{"a wrong clock wrote it: the level stays, dated now", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 2}, `
			100s      2 pass 2 0 - 20s
			89.999999s 1 deny 2 0 10s 20s
			99.999999s 1 pass 2 0 - 20s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

func TestTokenBucketInterval(t *testing.T) {
	refill := func(n, burst int64) Limit {
		return Limit{Algorithm: TokenBucket, Refill: Interval, Count: n, Window: time.Minute, Burst: burst}
	}
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"refilled at 60 and 120 s whichever came first; the surplus overflows", refill(3, 3), `
			0s   1 pass 1 2 - 60s
			20s  1 pass 2 1 - 40s
			40s  1 pass 3 0 - 20s
			50s  1 deny 3 0 10s 10s
			60s  1 pass 1 2 - 60s
			130s 1 pass 1 2 - 50s
			130s 1 pass 2 1 - 50s
			130s 1 pass 3 0 - 50s
			130s 1 deny 3 0 50s 50s`},
		{"a large cost waits for as many refills as it takes", refill(2, 7), `
			0s    7 pass 7 0 - 240s
			30s   5 deny 7 0 150s 210s
			179s  5 deny 3 4 1s 61s
			180s  5 pass 6 1 - 180s
			180s  8 deny 6 1 never 180s
			180s  0 pass 6 1 - 180s`},
		{"a count above the burst fills it at once", refill(10, 4), `
			59s 4 pass 4 0 - 1s
			59s 1 deny 4 0 1s 1s
			60s 4 pass 4 0 - 60s`},
		{"clock steps back over the boundary: no second refill", refill(2, 4), `
			0s   4 pass 4 0 - 120s
			60s  1 pass 3 1 - 120s
			59s  2 deny 3 1 61s 121s
			60s  1 pass 4 0 - 120s
			120s 2 pass 4 0 - 120s`},
		{"a wrong clock wrote it: what is missing stays, dated now", refill(2, 4), `
			600s 4 pass 4 0 - 120s
			0s   1 deny 4 0 60s 120s
			60s  2 pass 4 0 - 120s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

// A bucket that was made smaller than what is missing from it is empty, not in debt; one that was made larger
// has the additional room.
func TestTokenBucketResized(t *testing.T) {
	for _, refill := range []Refill{Continuous, Interval} {
		limit := func(burst int64) Limit {
			return Limit{Algorithm: TokenBucket, Refill: refill, Count: 1, Window: time.Minute, Burst: burst}
		}
		b := newBook(t, limit(10))
		b.play(t, `0s 10 pass 10 0 - 600s`)
		b.meter = compile(t, limit(2))
		b.play(t, `
			0s  0 pass 2 0 - 120s
			0s  1 deny 2 0 60s 120s
			60s 0 pass 1 1 - 60s    # empty since the last charge, not since somebody looked
		`)
		b.meter = compile(t, limit(12))
		b.play(t, `0s 2 pass 12 0 - 720s`)
	}
}

// The stored level is clamped before the elapsed time is multiplied, and that time is clamped to what drains
// the bucket: a state as old as the epoch in a bucket with the highest rate must not overflow into an
// arbitrary level.
func TestTokenBucketLongIdle(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: TokenBucket, Count: MaxCount, Window: MinWindow, Burst: 1},
		{Algorithm: TokenBucket, Count: MaxCount, Window: MinWindow},
		{Algorithm: TokenBucket, Count: MaxCount, Window: MinWindow, Refill: Interval},
		{Algorithm: LeakyBucket, Count: MaxCount, Window: MinWindow, Queue: 5},
	} {
		m := compile(t, l)
		full := m.Charge(State{At: 1}, m.Capacity)
		s, passes, repaired := m.Weigh(full, MaxInstant, m.Capacity, AnyDelay)
		if s.Used != 0 || !passes || repaired {
			t.Errorf("%v after 142 years: %+v, passes %v, repaired %v; want it full", l, s, passes, repaired)
		}
	}
}

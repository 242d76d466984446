package algorithm

import (
	"testing"
	"time"
)

// A cost that must be recorded passes if anything is left, and takes as much as the overdraft has room for.
func TestOverdraft(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"a fixed window forgets its debt", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: 10}, `
			0s  4  pass 4 1 - 60s
			10s 8! pass 12 0 - 50s
			10s 1! deny 12 0 50s 50s
			10s 0! deny 12 0 50s 50s      # a peek at a debt
			59s 1  deny 12 0 1s 1s
			60s 99! pass 15 0 - 60s       # the rest is forgiven
			60s 6  deny 15 0 never 60s`},
		{"exactly one left", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute}, `
			0s  4  pass 4 1 - 60s
			0s  7! pass 5 0 - 60s         # no overdraft: to zero and no further
			0s  7! deny 5 0 60s 60s
			0s  0! pass 5 0 - 60s`},
		{"a log waits until one is left", Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute, Overdraft: 4}, `
			0s  2  pass 2 1 - 60s
			10s 9! pass 7 0 - 60s
			20s 1  deny 7 0 50s 50s       # 5 of 10 s are still too many at 60 s
			20s 9! deny 7 0 50s 50s
			20s 4  deny 7 0 never 50s
			60s 0  deny 5 0 10s 10s
			70s 9! pass 7 0 - 60s`},
		{"of denied overdrawing calls a log counts no more than the limit", Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute, Overdraft: 4, CountDenied: true}, `
			0s  3  pass 3 0 - 60s
			10s 1000000! deny 4 0 60s 60s
			20s 1! deny 4 0 50s 60s       # 3+3+1: without the first 3 it is still 4
			69s 1  deny 4 0 1s 60s        # one above the limit
			70s 2! pass 4 0 - 60s`},
		{"and a window one above it", Limit{Algorithm: FixedWindow, Count: 3, Window: time.Minute, Overdraft: 4, CountDenied: true}, `
			0s  3  pass 3 0 - 60s
			10s 1000000! deny 4 0 50s 50s
			60s 9! pass 7 0 - 60s
			60s 9! deny 7 0 60s 60s       # a debt is not cut down to it`},
		{"a counter's debt fades through the next window", Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 10 * time.Second, Overdraft: 10}, `
			0s  99! pass 20 0 - 20s
			5s  1  deny 20 0 10.5s 15s    # 20·(W−e)/W ≤ 9 at e = 5.5 s
			10s 1! deny 20 0 5.5s 10s
			15.499999s 1! deny 10 0 1us 4.500001s
			15.5s 99! pass 20 0 - 14.5s`},
		{"a bucket's debt drains like anything else", Limit{Algorithm: TokenBucket, Count: 1, Window: time.Second, Burst: 2, Overdraft: 10}, `
			0s  1   pass 1 1 - 1s
			0s  99! pass 12 0 - 12s
			5s  1   deny 7 0 6s 7s
			5s  5!  deny 7 0 6s 7s
			10.999999s 5! deny 2 0 1us 1.000001s
			11s 5!  pass 6 0 - 6s
			17s 2   pass 2 0 - 2s`},
		{"in ticks of a second", Limit{Algorithm: TokenBucket, Count: 86400, Window: 24 * time.Hour, Burst: 1, Overdraft: 9}, `
			0.7s  4! pass 4 0 - 3.3s
			0.7s  1! deny 4 0 3.3s 3.3s
			3.999999s 1! deny 1 0 1us 1us
			4s    4! pass 4 0 - 4s`},
		{"an interval bucket pays back refill by refill", Limit{Algorithm: TokenBucket, Refill: Interval, Count: 2, Window: time.Minute, Burst: 3, Overdraft: 6}, `
			30s  99! pass 9 0 - 270s
			60s  1!  deny 7 0 180s 240s
			239s 1   deny 3 0 1s 61s
			240s 5!  pass 6 0 - 180s`},
		{"nothing ever passes a limit of zero", Limit{Algorithm: FixedWindow, Window: time.Minute, Overdraft: 5}, `
			0s  1! deny 0 0 never -
			0s  0! pass 0 0 - -`},
		{"a wrong clock wrote the debt", Limit{Algorithm: TokenBucket, Count: 1, Window: time.Second, Burst: 2, Overdraft: 10}, `
			600s 12! pass 12 0 - 12s
			0s   1!  deny 12 0 11s 12s
			11s  1!  pass 2 0 - 2s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

// The overdraft is not part of the fingerprint: a debt outlives a change, as far as the new overdraft goes.
func TestOverdraftChanged(t *testing.T) {
	for _, refill := range []Refill{Continuous, Interval} {
		limit := func(overdraft int64) Limit {
			return Limit{Algorithm: TokenBucket, Refill: refill, Count: 1, Window: time.Minute, Burst: 2, Overdraft: overdraft}
		}
		b := newBook(t, limit(10))
		b.play(t, `0s 99! pass 12 0 - 720s`)
		b.meter = compile(t, limit(3))
		b.play(t, `0s 1! deny 5 0 240s 300s`)
		b.meter = compile(t, limit(0))
		b.play(t, `
			0s  1! deny 2 0 60s 120s
			60s 9! pass 2 0 - 120s`)
	}
	for _, a := range []Algorithm{FixedWindow, SlidingWindowLog, SlidingWindowCounter} { // these keep what was counted
		b := newBook(t, Limit{Algorithm: a, Count: 3, Window: time.Minute, Overdraft: 10})
		b.overdraw(epoch, 99)
		b.meter = compile(t, Limit{Algorithm: a, Count: 3, Window: time.Minute})
		if d := b.overdraw(epoch, 5); d.Allowed || d.Used != 13 || d.Remaining != 0 || d.RetryAfter <= 0 {
			t.Errorf("%v: %+v", a, d)
		}
	}
}

// An overdraft by itself changes nothing for requests that do not overdraw.
func TestOverdraftIsNotForEverybody(t *testing.T) {
	for a := FixedWindow; a <= TokenBucket; a++ {
		b := newBook(t, Limit{Algorithm: a, Count: 3, Window: time.Minute, Overdraft: 10})
		passed := 0
		for range 20 {
			if b.take(epoch, 1, 0).Allowed {
				passed++
			}
		}
		if d := b.take(epoch, 4, 0); passed != 3 || d.RetryAfter != Never || d.Limit != 3 {
			t.Errorf("%v: %d passed; then %+v", a, passed, d)
		}
	}
}

func TestNeed(t *testing.T) {
	for _, test := range []struct {
		cost     int64
		overdraw bool
		want     int64
	}{{0, false, 0}, {1, false, 1}, {7, false, 7}, {0, true, 0}, {1, true, 1}, {7, true, 1}, {MaxCount, true, 1}} {
		if c := (Charge{Cost: test.cost, Overdraw: test.overdraw}); c.Need() != test.want {
			t.Errorf("%+v needs %d, want %d", c, c.Need(), test.want)
		}
	}
}

// Whichever limit denied it, a log records no more of a denied cost than the limit, and keeps no more than
// one above the limit.
func TestRecordDenied(t *testing.T) {
	m := compile(t, Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute, CountDenied: true, Overdraft: 9})
	for _, now := range []Instant{9, 1e15} { // below a window too
		for cost, want := range map[int64]int64{0: 2, 1: 3, 2: 4, 3: 4, 4: 4, MaxCount: 4} {
			for _, need := range []int64{1, 4} { // passes by itself, or does not
				var log []Entry
				for range 2 {
					log = m.RecordLog(log, m.WeighLog(log, now, 1), 1)
				}
				log = m.RecordDenied(log, m.WeighLog(log, now, need), cost)
				if got := m.WeighLog(log, now, 0).Sum; got != want {
					t.Errorf("at %d, of a denied %d beside 2, %d count, want %d", now, cost, got, want)
				}
			}
		}
	}
}

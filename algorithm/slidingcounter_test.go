package algorithm

import (
	"testing"
	"time"
)

func TestSlidingCounter(t *testing.T) {
	perMinute := func(n int64) Limit {
		return Limit{Algorithm: SlidingWindowCounter, Count: n, Window: time.Minute}
	}
	denied := perMinute(3)
	denied.CountDenied = true

	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"six, then three when a third of the next minute has passed", perMinute(6), `
			0s  6 pass 6 0 - 120s
			80s 1 pass 5 1 - 100s        # 6·40/60 = 4
			80s 1 pass 6 0 - 100s
			80s 1 deny 6 0 10s 100s      # 6·30/60 + 3 = 6 at 90 s
			89.999s 1 deny 6 0 1ms 90.001s # 6·30.001/60 rounds up
			89.999999s 1 deny 6 0 1us 90.000001s
			90s 1 pass 6 0 - 90s`},
		{"1+2+3 in the thirds, three more at 80 s: one denied", perMinute(6), `
			10s 1 pass 1 5 - 110s
			30s 2 pass 3 3 - 90s
			50s 3 pass 6 0 - 70s
			80s 1 pass 5 1 - 100s
			80s 1 pass 6 0 - 100s
			80s 1 deny 6 0 10s 100s`},
		{"the estimate never passes the limit", perMinute(5), `
			0s   5 pass 5 0 - 120s
			61s  1 deny 5 0 11s 59s       # 5·59/60 = 4.9 and 1 more
			72s  1 pass 5 0 - 108s        # 5·48/60 = 4
			72s  0 pass 5 0 - 108s
			72s  6 deny 5 0 never 108s
			60s  0 deny 6 0 12s 120s      # back by 12 s within the window: 5 + 1`},
		{"waits into the next window, where the current count fades", perMinute(4), `
			30s  4 pass 4 0 - 90s
			30s  1 deny 4 0 45s 90s       # 4·45/60 + 1 = 4 at 75 s
			30s  4 deny 4 0 90s 90s       # only when all of it is gone
			75s  1 pass 4 0 - 105s
			75s  4 deny 4 0 105s 105s     # the 1 has to fade too`},
		{"two windows on nothing is left", perMinute(4), `
			59s  4 pass 4 0 - 61s
			119.999999s 4 deny 1 3 1us 1us
			120s 4 pass 4 0 - 120s
			300s 4 pass 4 0 - 120s`},
		{"zero blocks everything but a peek", perMinute(0), `
			0s  1 deny 0 0 never -
			0s  0 pass 0 0 - -`},
		{"count_denied stops one above the limit and fades with the rest", denied, `
			0s   3 pass 3 0 - 120s
			1s   3 deny 4 0 119s 119s
			2s   1 deny 4 0 88s 118s      # 4·30/60 + 1 = 3 at 90 s
			3s   0 deny 4 0 72s 117s      # 4·45/60 = 3 at 75 s
			90s  1 pass 3 0 - 90s`},
		{"clock steps back over the boundary: time stands still at the start", perMinute(4), `
			0s  4 pass 4 0 - 120s
			75s 1 pass 4 0 - 105s
			59s 1 deny 5 0 31s 121s       # 4 + 1, and both fade from 60 s: 4·30/60 + 2 at 90 s
			90s 1 pass 4 0 - 90s`},
		{"a wrong clock wrote it: both counts are kept, dated now", perMinute(4), `
			600s 2 pass 2 2 - 120s
			690s 1 pass 2 2 - 90s
			0s   2 deny 3 1 30s 120s
			30s  2 pass 4 0 - 90s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

// Previous 8, current 2, limit 5, and a quarter of the previous window still counts: 4 are used, so exactly
// one of two simultaneous requests passes. The 8 come from an earlier, higher limit.
func TestSlidingCounterLowered(t *testing.T) {
	b := newBook(t, Limit{Algorithm: SlidingWindowCounter, Count: 8, Window: time.Minute})
	b.play(t, `
		0s   8 pass 8 0 - 120s
		105s 2 pass 4 4 - 75s`)
	b.meter = compile(t, Limit{Algorithm: SlidingWindowCounter, Count: 5, Window: time.Minute})
	b.play(t, `
		105s   1 pass 5 0 - 75s
		105s   1 deny 5 0 7.5s 75s    # 8·7.5/60 + 4 = 5 at 112.5 s
		112.5s 1 pass 5 0 - 67.5s`)
}

// Thirds of a window that no tick divides: the fading count is rounded so that the estimate is never too low.
func TestSlidingCounterRounding(t *testing.T) {
	b := newBook(t, Limit{Algorithm: SlidingWindowCounter, Count: 3, Window: 1000 * time.Microsecond})
	b.play(t, `
		0s     3 pass 3 0 - 2ms
		1.333ms 1 deny 3 0 1us 667us   # 3·667/1000 = 2.001
		1.334ms 1 pass 3 0 - 1.666ms`)
}

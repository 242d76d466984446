package algorithm

import (
	"testing"
	"time"
)

func TestFixedWindow(t *testing.T) {
	perMinute := func(n int64) Limit { return Limit{Algorithm: FixedWindow, Count: n, Window: time.Minute} }
	denied := perMinute(3)
	denied.CountDenied = true
	monthly := Limit{Algorithm: FixedWindow, Count: 2, Period: Month}

	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"edge burst: twice the limit within a second", perMinute(5), `
			59s 1 pass 1 4 - 1s
			59s 1 pass 2 3 - 1s
			59s 1 pass 3 2 - 1s
			59s 1 pass 4 1 - 1s
			59s 1 pass 5 0 - 1s
			60s 1 pass 1 4 - 60s
			60s 1 pass 2 3 - 60s
			60s 1 pass 3 2 - 60s
			60s 1 pass 4 1 - 60s
			60s 1 pass 5 0 - 60s
			60s 1 deny 5 0 60s 60s`},
		{"1+2+3 in the thirds of a minute, three more in the next: none denied", perMinute(6), `
			10s 1 pass 1 5 - 50s
			30s 2 pass 3 3 - 30s
			50s 3 pass 6 0 - 10s
			80s 1 pass 1 5 - 40s
			80s 1 pass 2 4 - 40s
			80s 1 pass 3 3 - 40s`},
		{"the window ends with its last microsecond", perMinute(1), `
			0s         1 pass 1 0 - 60s
			59.999999s 1 deny 1 0 1us 1us
			60s        1 pass 1 0 - 60s`},
		{"costs and peeks", perMinute(5), `
			0s  0 pass 0 5 - -         # nobody was here
			1s  3 pass 3 2 - 59s
			1s  3 deny 3 2 59s 59s
			1s  2 pass 5 0 - 59s
			1s  0 pass 5 0 - 59s       # a peek passes at the limit
			1s  6 deny 5 0 never 59s`},
		{"zero blocks everything but a peek", perMinute(0), `
			0s  1 deny 0 0 never -
			0s  0 pass 0 0 - -`},
		{"count_denied stops one above the limit", denied, `
			0s  2 pass 2 1 - 60s
			1s  2 deny 4 0 59s 59s
			2s  3 deny 4 0 58s 58s
			3s  4 deny 4 0 never 57s   # could never pass: not recorded
			4s  0 deny 4 0 56s 56s
			60s 3 pass 3 0 - 60s`},
		{"clock steps back over the boundary: the later window continues", perMinute(2), `
			60s 2 pass 2 0 - 60s
			59s 1 deny 2 0 61s 61s
			0s  1 deny 2 0 120s 120s    # just within reach
			60s 1 deny 2 0 60s 60s`},
		{"a wrong clock wrote it: counted in the window of now", perMinute(2), `
			600s 1 pass 1 1 - 60s
			0s   2 deny 1 1 60s 60s
			0s   1 pass 2 0 - 60s
			60s  2 pass 2 0 - 60s`},
		{"a calendar month is as long as the month", monthly, `
			0s     1 pass 1 1 - 744h
			743h   1 pass 2 0 - 1h
			743h   1 deny 2 0 1h 1h
			744h   2 pass 2 0 - 672h     # February
			1416h  2 pass 2 0 - 744h     # March`},
		{"a calendar period and a clock that steps back into the last one", monthly, `
			744h  2 pass 2 0 - 672h
			743h  1 deny 2 0 673h 673h`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

func TestFixedWindowKeepsConsumptionWhenTheLimitChanges(t *testing.T) {
	b := newBook(t, Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute})
	b.play(t, `0s 4 pass 4 1 - 60s`)
	b.meter = compile(t, Limit{Algorithm: FixedWindow, Count: 3, Window: time.Minute})
	b.play(t, `
		1s 1 deny 4 0 59s 59s
		1s 0 deny 4 0 59s 59s`)
	b.meter = compile(t, Limit{Algorithm: FixedWindow, Count: 10, Window: time.Minute})
	b.play(t, `1s 6 pass 10 0 - 59s`)
}

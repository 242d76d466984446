package algorithm

import (
	"testing"
	"time"
)

func TestLeakyBucket(t *testing.T) {
	fourPerMinute := Limit{Algorithm: LeakyBucket, Count: 4, Window: time.Minute, Queue: 6}
	for _, test := range []struct {
		name     string
		limit    Limit
		maxDelay time.Duration
		steps    string
	}{
		{"a burst: one starts at once, six wait, the next is denied", fourPerMinute, AnyDelay, `
			0s  1 pass 1 6 - 15s  -
			0s  1 pass 2 5 - 30s  15s
			0s  1 pass 3 4 - 45s  30s
			0s  1 pass 4 3 - 60s  45s
			0s  1 pass 5 2 - 75s  60s
			0s  1 pass 6 1 - 90s  75s
			0s  1 pass 7 0 - 105s 90s
			0s  1 deny 7 0 15s 105s
			14.999s 1 deny 7 0 1ms 90.001s
			15s 1 pass 7 0 - 105s 90s`},
		{"departures stay in order and a quarter minute apart", fourPerMinute, AnyDelay, `
			0s   1 pass 1 6 - 15s -
			5s   1 pass 2 5 - 25s 10s     # starts at 15 s
			20s  1 pass 2 5 - 25s 10s     # at 30 s
			200s 1 pass 1 6 - 15s -
			200s 0 pass 1 6 - 15s 15s     # what a call would wait
			200s 8 deny 1 6 never 15s`},
		{"a queue of none denies what would wait", Limit{Algorithm: LeakyBucket, Count: 4, Window: time.Minute}, AnyDelay, `
			0s  1 pass 1 0 - 15s -
			10s 1 deny 1 0 5s 5s
			15s 1 pass 1 0 - 15s -`},
		{"who cannot wait is denied until the queue is empty", fourPerMinute, 0, `
			0s  2 pass 2 5 - 30s -
			1s  1 deny 2 5 29s 29s
			1s  0 pass 2 5 - 29s 29s      # a peek need not wait
			29.999999s 1 deny 1 6 1us 1us
			30s 1 pass 1 6 - 15s -`},
		{"who can wait a little is denied until the wait is that little", fourPerMinute, 5 * time.Second, `
			0s  2 pass 2 5 - 30s -
			1s  1 deny 2 5 24s 29s
			25s 1 pass 2 5 - 20s 5s
			25s 7 deny 2 5 20s 20s        # the room, not the wait, is what lacks`},
		{"a part of a microsecond is no time to wait", fourPerMinute, 5*time.Second + 999*time.Nanosecond, `
			0s  2 pass 2 5 - 30s -
			24.999999s 1 deny 1 6 1us 5.000001s
			25s 1 pass 2 5 - 20s 5s`},
		{"clock steps back within reach: the queue stands still", fourPerMinute, AnyDelay, `
			60s 2 pass 2 5 - 30s -
			50s 1 pass 3 4 - 55s 40s      # starts at 90 s
			90s 1 pass 2 5 - 30s 15s`},
		{"clock steps back: who can wait a little less than it takes retries as much later", fourPerMinute, 16 * time.Second, `
			60s 1 pass 1 6 - 15s -
			55s 1 deny 1 6 4s 20s         # would start at 75 s
			59s 1 pass 2 5 - 31s 16s`},
		{"clock steps back: the last place, for who can wait a little less than it takes", Limit{Algorithm: LeakyBucket, Count: 4, Window: time.Minute, Queue: 1}, 19 * time.Second, `
			60s 1 pass 1 1 - 15s -
			55s 1 deny 1 1 1s 20s
			56s 1 pass 2 0 - 34s 19s`},
		{"a wrong clock wrote it: the queue is dated now", fourPerMinute, AnyDelay, `
			600s 2 pass 2 5 - 30s -
			0s   1 pass 3 4 - 45s 30s`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBook(t, test.limit)
			b.maxDelay = test.maxDelay
			b.play(t, test.steps)
		})
	}
}

// Ticks of a millisecond: a request that arrives within one leaves on a tick, and the promised delay is never
// too short.
func TestLeakyBucketWithinATick(t *testing.T) {
	b := newBook(t, Limit{Algorithm: LeakyBucket, Count: 7, Window: time.Minute, Queue: 1})
	b.play(t, `
		0.0003s 1 pass 1 1 - 8.5717s   -           # 60 s / 7 is 8571.43 ms
		0.0003s 1 pass 2 0 - 17.1427s  8.5717s
		0.0003s 1 deny 2 0 8.5717s 17.1427s
		8.571999s 1 deny 2 0 1us 8.571001s
		8.572s  1 pass 2 0 - 17.143s 8.571s`) // 17142.86 ms less 8572 is 8570.86
}

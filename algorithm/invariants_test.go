package algorithm

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/penstock-io/penstock/internal/fixedseed"
)

// These tests check what each algorithm guarantees for any sequence of requests, by what it allowed.

type admittedRequest struct {
	at     Instant
	cost   int64
	starts Instant // at + delay
}

// admit makes random requests and returns those that passed. Time runs forwards. With an overdraft, some
// requests must be recorded.
func admit(t *rapid.T, l Limit) (passed []admittedRequest) {
	b := &book{meter: l.MustCompile(), maxDelay: AnyDelay}
	now := epoch + Instant(rapid.Int64Range(0, b.meter.Window).Draw(t, "start"))
	for range 80 {
		now += Instant(rapid.Int64Range(0, b.meter.Window/4).Draw(t, "pause") / rapid.Int64Range(1, 50).Draw(t, "hurry"))
		c := Charge{Meter: b.meter, Cost: rapid.Int64Range(1, 3).Draw(t, "cost")}
		if l.Overdraft > 0 && rapid.IntRange(0, 3).Draw(t, "overdraw") == 0 {
			c.Overdraw, c.Cost = true, rapid.Int64Range(1, 2*(l.Count+l.Overdraft)).Draw(t, "late cost")
		}
		if d := b.charge(now, c, 0); d.Allowed {
			passed = append(passed, admittedRequest{now, d.Receipt.Cost, now.Add(d.Delay)})
		}
	}
	return passed
}

func drawOverdraft(t *rapid.T) int64 {
	return max(0, rapid.Int64Range(-10, 10).Draw(t, "overdraft"))
}

// eachInterval calls f with the sum that passed from each admitted request to each later one.
func eachInterval(passed []admittedRequest, f func(from, to Instant, sum int64)) {
	for i := range passed {
		sum := int64(0)
		for _, p := range passed[i:] {
			sum += p.cost
			f(passed[i].at, p.at, sum)
		}
	}
}

func TestLogNeverPassesTheLimitInAnyWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: SlidingWindowLog, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t), CountDenied: rapid.Bool().Draw(t, "denied"), Overdraft: drawOverdraft(t)}
		eachInterval(admit(t, l), func(from, to Instant, sum int64) {
			if to.Sub(from) < l.Window && sum > l.Count+l.Overdraft {
				t.Fatalf("%v: %d passed within %v", l, sum, to.Sub(from))
			}
		})
	})
}

func TestFixedWindowNeverPassesTheLimitInAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: FixedWindow, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t), Overdraft: drawOverdraft(t)}
		w := Instant(l.Window.Microseconds())
		eachInterval(admit(t, l), func(from, to Instant, sum int64) {
			if windows := int64(to/w - from/w + 1); sum > (l.Count+l.Overdraft)*windows {
				t.Fatalf("%v: %d passed in %d windows", l, sum, windows)
			}
		})
	})
}

func TestCounterStaysBelowTwiceTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: SlidingWindowCounter, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t)}
		eachInterval(admit(t, l), func(from, to Instant, sum int64) {
			if to.Sub(from) < l.Window && sum >= 2*l.Count && l.Count > 1 {
				t.Fatalf("%v: %d passed within %v", l, sum, to.Sub(from))
			}
		})
	})
}

func TestBucketPassesItsBurstAndRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: TokenBucket, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t), Burst: rapid.Int64Range(1, 10).Draw(t, "burst"), Overdraft: drawOverdraft(t)}
		tick := Instant(l.unit().Microseconds())
		eachInterval(admit(t, l), func(from, to Instant, sum int64) {
			most := big.NewRat(l.Count*int64(to/tick-from/tick), int64(l.Window/l.unit()))
			if most.Add(most, rat(l.Burst+l.Overdraft)).Cmp(rat(sum)) < 0 {
				t.Fatalf("%v: %d passed within %v, more than %v", l, sum, to.Sub(from), most)
			}
		})
	})
}

// Departures are in order of arrival and W/L apart (to the tick), and no request waits longer than the queue
// is long.
func TestLeakyBucketSpacesDepartures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Algorithm: LeakyBucket, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t), Queue: rapid.Int64Range(0, 10).Draw(t, "queue")}
		apart := func(n int64) time.Duration { return time.Duration(n) * l.Window / time.Duration(l.Count) }
		passed := admit(t, l)
		for i, p := range passed {
			if wait := p.starts.Sub(p.at); wait > apart(l.Queue)+l.unit() {
				t.Fatalf("%v: one waits %v", l, wait)
			}
			if i == 0 {
				continue
			}
			if gap := p.starts.Sub(passed[i-1].starts); gap < apart(passed[i-1].cost)-l.unit() {
				t.Fatalf("%v: %v between two departures, the first of cost %d", l, gap, passed[i-1].cost)
			}
		}
	})
}

// In the same state, a higher limit allows whatever a lower one does, a lower cost passes whenever a higher
// one does, and two halves pass no more than the whole.
func TestHigherLimitsAndLowerCostsPassMore(t *testing.T) {
	for a := FixedWindow; a <= LeakyBucket; a++ {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := Limit{Algorithm: a, Count: rapid.Int64Range(1, 10).Draw(t, "count"), Window: drawWindow(t)}
			if a == TokenBucket && rapid.Bool().Draw(t, "interval") {
				l.Refill = Interval
			}
			higher := l
			higher.Count++
			if a == LeakyBucket {
				l.Queue, higher.Queue = 5, 6
			} else {
				l.Overdraft = drawOverdraft(t)
				higher.Overdraft = l.Overdraft
			}
			b := &book{meter: l.MustCompile(), maxDelay: AnyDelay}
			up := higher.MustCompile()
			passes := func(m *Meter, now Instant, cost int64) bool {
				if a == SlidingWindowLog {
					return m.WeighLog(b.entries, now, cost).Passes
				}
				_, ok, _ := m.Weigh(b.state, now, cost, AnyDelay)
				return ok
			}
			now := epoch
			for range 40 {
				now += Instant(rapid.Int64Range(0, b.meter.Window/3).Draw(t, "pause"))
				cost := rapid.Int64Range(1, 4).Draw(t, "cost")
				if l.Overdraft > 0 && rapid.IntRange(0, 5).Draw(t, "late") == 0 {
					b.overdraw(now, 10*cost)
				}
				if passes(b.meter, now, cost) && !passes(up, now, cost) {
					t.Fatalf("%v passes a cost of %d and %v does not", l, cost, higher)
				}
				if passes(b.meter, now, cost+1) && !passes(b.meter, now, cost) {
					t.Fatalf("%v passes %d and not %d", l, cost+1, cost)
				}
				whole := passes(b.meter, now, 2*cost)
				halves := b.take(now, cost, 0).Allowed && passes(b.meter, now, cost)
				if whole != halves {
					t.Fatalf("%v: %d pass: %v; %d twice: %v", l, 2*cost, whole, cost, halves)
				}
			}
		}))
	}
}

// Of many requests at one instant exactly as many pass as the limit allows, with every algorithm.
func TestSimultaneousCalls(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 10, Window: time.Minute},
		{Algorithm: FixedWindow, Count: 10, Period: Hour},
		{Algorithm: FixedWindow, Count: 10, Window: time.Minute, CountDenied: true},
		{Algorithm: SlidingWindowLog, Count: 10, Window: time.Minute},
		{Algorithm: SlidingWindowLog, Count: 10, Window: time.Minute, CountDenied: true},
		{Algorithm: SlidingWindowCounter, Count: 10, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 10, Window: time.Minute},
		{Algorithm: TokenBucket, Count: 3, Window: time.Minute, Burst: 10},
		{Algorithm: TokenBucket, Count: 10, Window: time.Minute, Refill: Interval},
		{Algorithm: LeakyBucket, Count: 10, Window: time.Minute, Queue: 9},
		{Algorithm: Concurrency, Count: 10, Window: time.Minute},
	} {
		for _, calls := range []int{50, 100} {
			b, passed := newBook(t, l), 0
			for i := range calls {
				if b.take(epoch+12345, 1, uint64(i+1)).Allowed {
					passed++
				}
			}
			if passed != 10 {
				t.Errorf("%v: %d of %d simultaneous calls passed, want 10", l, passed, calls)
			}
		}
	}
}

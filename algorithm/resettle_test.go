package algorithm

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// In these tables =5 replaces the last charge by 5.
func TestResettle(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit Limit
		steps string
	}{
		{"a window gives back to its end", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute}, `
			10s 3  pass 3 2 - 50s
			59.999999s =1 pass 1 4 - 1us`},
		{"and not after it", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute}, `
			10s 3  pass 3 2 - 50s
			60s =1 pass 0 5 - -
			60s 5  pass 5 0 - 60s`},
		{"a calendar period", Limit{Algorithm: FixedWindow, Count: 5, Period: Hour}, `
			10m 3  pass 3 2 - 50m
			20m =0 pass 0 5 - -`},
		{"a higher cost is denied where it does not pass", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute}, `
			0s  2  pass 2 3 - 60s
			10s =6 deny 2 3 50s 50s       # 4 more
			10s =9 deny 2 3 never 50s
			10s =5 pass 5 0 - 50s`},
		{"or charged as far as it fits", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: 2}, `
			0s  2  pass 2 3 - 60s
			10s =9/allow pass 5 0 - 50s
			20s =9/allow pass 5 0 - 40s`},
		{"or into debt", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: 2}, `
			0s  2  pass 2 3 - 60s
			10s =6/debt pass 6 0 - 50s
			20s =9/debt pass 7 0 - 40s
			20s =9/allow pass 7 0 - 40s
			20s 1  deny 7 0 40s 40s`},
		{"in debt, less is given back", Limit{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: 9}, `
			0s  9! pass 9 0 - 60s
			10s =3 pass 3 2 - 50s`},
		{"a bucket gives back for a window", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 10}, `
			0s  8  pass 8 2 - 80s
			9.999999s =0 pass 0 10 - -`},
		{"and not after it", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 10}, `
			0s  8  pass 8 2 - 80s
			10s =0 pass 7 3 - 70s`},
		{"what was refilled meanwhile does not overflow", Limit{Algorithm: TokenBucket, Count: 5, Window: 10 * time.Second, Burst: 10}, `
			0s  8  pass 8 2 - 16s
			8s  =2 pass 0 10 - -          # 4 were refilled, of 6 given back 4 fit`},
		{"a bucket charges the difference now", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 10, Overdraft: 5}, `
			0s  8  pass 8 2 - 80s
			30s =14 deny 5 5 10s 50s      # 6 more
			30s =13 pass 10 0 - 100s
			30s =99/debt pass 15 0 - 150s`},
		{"an interval bucket gives back to the next refill", Limit{Algorithm: TokenBucket, Refill: Interval, Count: 2, Window: time.Minute, Burst: 6}, `
			10s 5  pass 5 1 - 170s
			59s =1 pass 1 5 - 1s`},
		{"and not after it", Limit{Algorithm: TokenBucket, Refill: Interval, Count: 2, Window: time.Minute, Burst: 6}, `
			10s 5  pass 5 1 - 170s
			60s =1 pass 3 3 - 120s
			60s =10/allow pass 6 0 - 180s`},
		{"a counter gives back in its window", Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 10 * time.Second}, `
			1s  8  pass 8 2 - 19s
			9s  =3 pass 3 7 - 11s`},
		{"and as long as it fades", Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 10 * time.Second}, `
			1s  8  pass 8 2 - 19s
			15s =2 pass 1 9 - 5s
			19.999999s =0 pass 0 10 - -`},
		{"and not after it", Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 10 * time.Second}, `
			1s  8  pass 8 2 - 19s
			11s 1  pass 9 1 - 19s
			20s =0 pass 0 10 - -`},
		{"a log gives back as long as it counts", Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute, Overdraft: 3}, `
			0s  1  pass 1 4 - 60s
			10s 3  pass 4 1 - 60s
			20s =1 pass 2 3 - 50s
			20s =9/deny deny 2 3 never 50s
			30s =7 deny 2 3 30s 40s       # 4 more: the first has to leave
			30s =6 pass 5 0 - 60s
			30s =9/allow pass 5 0 - 60s
			40s =9/debt pass 8 0 - 60s`},
		{"and not after it", Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute}, `
			0s  3  pass 3 2 - 60s
			59.999999s =2 pass 2 3 - 1us
			60s =0 pass 0 5 - -`},
		{"a log that counts denied calls keeps what is charged in debt", Limit{Algorithm: SlidingWindowLog, Count: 3, Window: time.Minute, Overdraft: 10, CountDenied: true}, `
			0s  2  pass 2 1 - 60s
			10s 5! pass 7 0 - 60s
			20s =7/debt pass 9 0 - 60s
			60s 0  deny 7 0 10s 20s`},
		{"a log that is empty", Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute}, `
			0s  =0 pass 0 5 - -
			0s  =2 pass 2 3 - 60s`},
		{"a log's charge that a wrong clock dated", Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute}, `
			600s 3  pass 3 2 - 60s
			0s   =0 pass 3 2 - 60s
			0s   =5 pass 5 0 - 60s`},
		{"clock steps back within reach", Limit{Algorithm: TokenBucket, Count: 1, Window: 10 * time.Second, Burst: 10}, `
			20s 8  pass 8 2 - 80s
			15s =3 pass 3 7 - 35s
			20s 7  pass 10 0 - 100s`},
	} {
		t.Run(test.name, func(t *testing.T) { newBook(t, test.limit).play(t, test.steps) })
	}
}

// An operator changes the limit between reserving and settling: no client gets more than the new capacity,
// and use does not go below zero.
func TestResettleChanged(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Window: time.Minute},
		{Algorithm: SlidingWindowLog, Window: time.Minute},
		{Algorithm: SlidingWindowCounter, Window: time.Minute},
		{Algorithm: TokenBucket, Window: time.Minute},
		{Algorithm: TokenBucket, Window: time.Minute, Refill: Interval},
	} {
		with := func(count, overdraft int64) *Meter {
			l.Count, l.Overdraft = count, overdraft
			return compile(t, l)
		}
		reserve := func(cost int64) *book {
			b := &book{meter: with(10, 0), maxDelay: AnyDelay}
			b.take(epoch, 1, 0)
			if !b.take(epoch, cost, 0).Allowed {
				t.Fatalf("%v: no %d to reserve", l, cost)
			}
			return b
		}
		bucket := l.Algorithm == TokenBucket

		lowered := reserve(8)
		lowered.meter = with(4, 0)
		want := int64(9 - 6)
		if bucket {
			want = 0 // it was empty, with nothing beyond: 4 − 6
		}
		if d := lowered.settle(epoch, lowered.receipt, 2, OverageDeny); !d.Allowed || d.Used != want {
			t.Errorf("%v, lowered: %+v, want %d used", l, d, want)
		}

		over := reserve(8)
		over.meter = with(4, 0)
		if bucket {
			want = 4
		} else {
			want = 9
		}
		for _, o := range []Overage{OverageAllow, OverageDebt} {
			if d := over.settle(epoch, over.receipt, 12, o); !d.Allowed || d.Used != want || d.Remaining != 0 {
				t.Errorf("%v, lowered and %v: %+v, want %d used", l, o, d, want)
			}
		}
		if d := over.settle(epoch, over.receipt, 9, OverageDeny); d.Allowed || d.Used != want || d.RetryAfter <= 0 {
			t.Errorf("%v, lowered and one more: %+v, want %d used", l, d, want)
		}

		raised := reserve(8)
		raised.meter = with(20, 5)
		if d := raised.settle(epoch, raised.receipt, 99, OverageDebt); !d.Allowed || d.Used != 25 {
			t.Errorf("%v, raised: %+v, want 25 used", l, d)
		}
		if d := raised.settle(epoch, Receipt{raised.meter.Fingerprint, MaxCount / 1000, epoch}, 0, OverageDeny); !d.Allowed || d.Used != 0 {
			t.Errorf("%v: more given back than was ever taken: %+v", l, d)
		}
	}
}

// A charge that a wrong clock dated has no window of its own: if it were given back in every future window,
// each of them would allow more than the limit.
func TestResettleOfAWrongClock(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: FixedWindow}, {Algorithm: SlidingWindowLog}, {Algorithm: SlidingWindowCounter}, {Algorithm: TokenBucket}, {Algorithm: TokenBucket, Refill: Interval},
	} {
		l.Count, l.Window = 5, time.Minute
		b := newBook(t, l)
		r := b.take(epoch.Add(time.Hour), 3, 0).Receipt
		b.take(epoch, 2, 0) // everything is re-dated
		now := epoch.Add(20 * time.Minute)
		if !b.take(now, 5, 0).Allowed {
			t.Fatalf("%v: not as if never seen after 20 minutes", l)
		}
		if d := b.settle(now, r, 0, OverageDeny); !d.Allowed || d.Used != 5 {
			t.Errorf("%v: given back from a later window: %+v", l, d)
		}
	}
}

// A client that reserves and releases all day leaves no trace in a log.
func TestReleasedLogStaysShort(t *testing.T) {
	b := newBook(t, Limit{Algorithm: SlidingWindowLog, Count: 5, Window: time.Hour})
	b.take(epoch, 2, 0)
	for i := range Instant(1000) {
		b.settle(epoch+i, b.take(epoch+i, 3, 0).Receipt, 0, OverageDeny)
	}
	if d := b.take(epoch+1000, 0, 0); len(b.entries) > 3 || d.Used != 2 || d.ResetAfter != time.Hour-1000*time.Microsecond {
		t.Errorf("%d entries, %+v", len(b.entries), d)
	}
}

// A give-back is taken once from what was charged at one instant, whichever request charged it. Earlier and
// later charges keep their cost.
func TestResettleLogInTheMiddle(t *testing.T) {
	m := compile(t, Limit{Algorithm: SlidingWindowLog, Count: 20, Window: time.Minute})
	at := func(s int, n int64) Entry { return Entry{At: epoch.Add(time.Duration(s) * time.Second), Value: n} }
	log := []Entry{at(0, 5), at(1, 7), at(2, 10), at(2, 14), at(2, 15), at(3, 19)} // 2, 3+4+1, 4
	for _, test := range []struct {
		name    string
		receipt Receipt
		cost    int64
		want    []Entry
	}{
		{"the largest of three", Receipt{Cost: 4, At: at(2, 0).At}, 1, []Entry{at(0, 5), at(1, 7), at(2, 10), at(2, 12), at(2, 12), at(3, 16)}},
		{"all of it", Receipt{Cost: 4, At: at(2, 0).At}, 0, []Entry{at(0, 5), at(1, 7), at(2, 10), at(2, 11), at(2, 11), at(3, 15)}},
		{"more than there is", Receipt{Cost: 99, At: at(2, 0).At}, 0, []Entry{at(0, 5), at(1, 7), at(2, 7), at(2, 7), at(2, 7), at(3, 11)}},
		{"the newest", Receipt{Cost: 4, At: at(3, 0).At}, 1, []Entry{at(0, 5), at(1, 7), at(2, 10), at(2, 14), at(2, 15), at(3, 16)}},
		{"the oldest", Receipt{Cost: 2, At: at(1, 0).At}, 0, []Entry{at(0, 5), at(1, 5), at(2, 8), at(2, 12), at(2, 13), at(3, 17)}},
		{"the base counts nothing", Receipt{Cost: 2, At: at(0, 0).At}, 0, log},
		{"at no such instant", Receipt{Cost: 2, At: at(2, 0).At + 1}, 0, log},
		{"before all", Receipt{Cost: 2, At: 1}, 0, log},
		{"after all", Receipt{Cost: 2, At: MaxInstant}, 0, log},
		{"the same cost", Receipt{Cost: 2, At: at(2, 0).At}, 2, log},
	} {
		got, ok := m.ResettleLog(slices.Clone(log), at(5, 0).At, test.receipt, test.cost, OverageDeny)
		// Entries that count nothing may be kept or not.
		if diff := cmp.Diff(spend(test.want), spend(got)); diff != "" || !ok {
			t.Errorf("%s: ok %v, log (-want +got)\n%s", test.name, ok, diff)
		}
	}
}

// spend lists the entries that count in a log, each with its own cost.
func spend(log []Entry) (costs []Entry) {
	for i := 1; i < len(log); i++ {
		if cost := log[i].Value - log[i-1].Value; cost != 0 {
			costs = append(costs, Entry{log[i].At, cost})
		}
	}
	return costs
}

// What is charged less what is given back stays within what each algorithm guarantees, counting each charge
// at its final cost.
func TestGivingBackAddsNothing(t *testing.T) {
	for _, l := range []Limit{{Algorithm: SlidingWindowLog}, {Algorithm: FixedWindow}, {Algorithm: TokenBucket}, {Algorithm: TokenBucket, Refill: Interval}} {
		t.Run(l.Algorithm.String()+" "+l.Refill.String(), rapid.MakeCheck(func(t *rapid.T) {
			l := l
			l.Count, l.Window = rapid.Int64Range(1, 10).Draw(t, "count"), drawWindow(t)
			b := &book{meter: l.MustCompile(), maxDelay: AnyDelay}
			w, tick := Instant(b.meter.Window), Instant(b.meter.Tick)
			var passed []admittedRequest
			open := map[int]Receipt{}
			now := epoch + Instant(rapid.Int64Range(0, b.meter.Window).Draw(t, "start"))
			for range 80 {
				now += Instant(rapid.Int64Range(0, b.meter.Window/4).Draw(t, "pause") / rapid.Int64Range(1, 50).Draw(t, "hurry"))
				i := rapid.IntRange(0, len(passed)).Draw(t, "which")
				if r, ok := open[i]; ok {
					cost := rapid.Int64Range(0, r.Cost+1).Draw(t, "true cost")
					before := b.settle(now, r, r.Cost, OverageDeny).Used
					d := b.settle(now, r, cost, OverageDeny)
					switch {
					case !d.Allowed:
						continue
					case cost > r.Cost:
						passed = append(passed, admittedRequest{at: now, cost: 1})
					case l.Algorithm == TokenBucket:
						// A give-back counts when it is given back, and no more than fits.
						passed = append(passed, admittedRequest{at: now, cost: d.Used - before})
					default:
						passed[i].cost = cost
					}
					delete(open, i)
					continue
				}
				if d := b.take(now, rapid.Int64Range(1, 4).Draw(t, "cost"), 0); d.Allowed {
					open[len(passed)] = d.Receipt
					passed = append(passed, admittedRequest{at: now, cost: d.Receipt.Cost})
				}
			}
			eachInterval(passed, func(from, to Instant, sum int64) {
				var most int64
				switch {
				case l.Algorithm == SlidingWindowLog:
					most = l.Count * int64((to-from)/w+1)
				case l.Algorithm == FixedWindow || l.Refill == Interval:
					most = l.Count * int64(to/w-from/w+1)
				default: // one more, because what was given back is rounded
					most = l.Count + 1 + ceilDiv(l.Count*int64(to/tick-from/tick), b.meter.Ticks)
				}
				if sum > most {
					t.Fatalf("%v: %d passed within %v, at most %d may", l, sum, to.Sub(from), most)
				}
			})
		}))
	}
}

// FuzzResettle: whatever the state, receipt and clock, use never goes below zero, and a refused settlement
// changes no number.
func FuzzResettle(f *testing.F) {
	f.Add(uint8(0), int64(5), int64(3), int64(epoch), int64(3), int64(0), int64(epoch), int64(3), int64(epoch), int64(1), uint8(0))
	f.Add(uint8(1), int64(5), int64(3), int64(epoch), int64(9), int64(4), int64(epoch+9), int64(MaxCount), int64(1), int64(0), uint8(1))
	f.Add(uint8(2), int64(5), int64(0), int64(MaxInstant), int64(4<<20), int64(0), int64(1), int64(2), int64(MaxInstant), int64(9), uint8(2))
	f.Add(uint8(1), int64(5), int64(3), int64(epoch), int64(3), int64(0), int64(epoch.Add(time.Minute)), int64(5), int64(epoch), int64(0), uint8(0))
	f.Add(uint8(3), int64(1), int64(100), int64(1), int64(100), int64(-1), int64(MaxInstant), int64(0), int64(0), int64(MaxCount), uint8(2))
	f.Fuzz(func(t *testing.T, kind uint8, count, overdraft, at, a, b, clock, taken, takenAt, cost int64, overage uint8) {
		l := []Limit{{Algorithm: FixedWindow}, {Algorithm: SlidingWindowCounter}, {Algorithm: TokenBucket}, {Algorithm: TokenBucket, Refill: Interval}, {Algorithm: FixedWindow, Period: Month}}[kind%5]
		l.Count, l.Overdraft = count, overdraft
		if l.Period == NoPeriod {
			l.Window = time.Minute
		}
		m, err := l.Compile()
		if err != nil {
			return
		}
		within := func(v, most int64) int64 { return int64(uint64(v) % uint64(most+1)) }
		most := max(m.Most, m.Count+1)
		s := State{At: Instant(at) & MaxInstant, Used: within(a, most)}
		if m.Kind == KindCounter {
			s.Previous = within(b, most)
		}
		now := Instant(clock) & MaxInstant
		r := Receipt{m.Fingerprint, within(taken, m.Capacity+m.Overdraft), Instant(takenAt) & MaxInstant}
		cost = within(cost, MaxCount)
		before, _, _ := m.Weigh(s, now, 0, 0)
		after, ok := m.Resettle(s, now, r, cost, Overage(overage%3))
		used, was := m.used(after, now), m.used(before, now)
		switch {
		case after.Used < 0 || after.Previous < 0 || after.At != before.At:
			t.Errorf("%v: %+v became %+v", l, before, after)
		case !ok && after != before:
			t.Errorf("%v: refused, and %+v became %+v", l, before, after)
		case cost <= r.Cost && (!ok || used > was || was-used > r.Cost-cost):
			t.Errorf("%v: %d of %d given back: %+v became %+v", l, r.Cost-cost, r.Cost, before, after)
		case cost > r.Cost && used > max(was, m.Capacity+m.Overdraft):
			t.Errorf("%v: %d more charged: %+v became %+v", l, cost-r.Cost, before, after)
		}
		if d := m.ReportSettled(after, now, max(0, cost-r.Cost), ok); d.Allowed != ok || d.Used < 0 || d.Remaining < 0 || d.RetryAfter < Never || d.Receipt != (Receipt{}) {
			t.Errorf("%v: %+v", l, d)
		}
	})
}

// FuzzLog: after any sequence of requests, settlements and clocks, the instants and totals of a log never
// fall (except for what count_denied dropped, at 0), and it uses no more than it holds.
func FuzzLog(f *testing.F) {
	f.Add(uint8(3), uint8(2), true, []byte{0, 1, 2, 1, 1, 2, 7, 200, 0, 2, 0, 1})
	f.Add(uint8(10), uint8(0), false, []byte{0, 0, 4, 0, 0, 4, 2, 0, 0, 4, 0, 1, 5, 9, 9, 6, 255, 3})
	f.Fuzz(func(t *testing.T, count, overdraft uint8, countDenied bool, script []byte) {
		b := newBook(t, Limit{Algorithm: SlidingWindowLog, Count: int64(count), Overdraft: int64(overdraft), CountDenied: countDenied, Window: time.Second})
		now := epoch
		for ; len(script) >= 3; script = script[3:] { // what, pause in 1/64 of a window, cost
			pause := Instant(int8(script[1])) * 1_000_000 / 64
			now = max(1, now+pause)
			var d Decision
			cost := int64(script[2])
			switch script[0] % 8 {
			case 0, 1:
				d = b.take(now, cost, 0)
			case 2, 3:
				d = b.settle(now, b.receipt, cost, Overage(script[0]>>3)%3)
			case 4:
				now = epoch + Instant(script[1])<<35 // another clock
				d = b.take(now, cost, 0)
			default:
				d = b.overdraw(now, cost)
			}
			sum, latest := int64(0), Instant(0)
			for i := 1; i < len(b.entries); i++ {
				e, last := b.entries[i], b.entries[i-1]
				if e.Value < last.Value || e.At < latest && e.At != 0 {
					t.Fatalf("entry %d of %v", i, b.entries)
				}
				sum, latest = sum+e.Value-last.Value, max(latest, e.At)
			}
			if d.Used < 0 || d.Used > sum || d.RetryAfter < Never || d.ResetAfter < 0 || d.Allowed != (d.RetryAfter == 0) {
				t.Fatalf("%+v of %v at %d", d, b.entries, now)
			}
		}
	})
}

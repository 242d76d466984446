package redisstore_test

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A scenarioRecorder plays a scenario: the model answers its requests, and the answers are recorded.
type scenarioRecorder struct{ *recorder }

func (r scenarioRecorder) take(t *storage.Ticket) (out storage.Outcome) {
	r.Take(context.Background(), t, &out)
	return out
}

func (r scenarioRecorder) settle(now algorithm.Instant, t *storage.Ticket, verb storage.Verb, cost int64) {
	s := settlement(t, verb)
	s.Now = now
	for i := range s.Charges {
		s.Charges[i].Cost = cost
	}
	r.Settle(context.Background(), s, new(storage.SettleOutcome))
}

// aroundIt returns the instants just before one, at it, and just after.
func aroundIt(at algorithm.Instant) []algorithm.Instant {
	return []algorithm.Instant{at - 1, at, at + 1}
}

// guardStories are scenarios for guards that random traces seldom reach.
var guardStories = []func(scenarioRecorder){repeatsAtTheEnd, strikesAtTheEnd, liftAndStepBack, overdrawnCounter, overdrawnLog, intervalStepBack, lateGiveBacks, renewedLeases, reservationsEnd, lateEntries, lateCounters, refunds, settledStrikes}

// repeatsAtTheEnd: a duplicate arrives when its record ends, and from a clock that stepped back as far.
func repeatsAtTheEnd(r scenarioRecorder) {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Hour}.MustCompile()
	const ttl = time.Minute
	for _, back := range []bool{false, true} {
		for _, again := range aroundIt(monday + seconds(60)) {
			t := one(monday, stranger(), charge(m, 1))
			g := &t.Groups[0]
			g.Dedup, g.Call = dedupOf(ttl), newCallID()
			later := *t
			later.Now = again
			if back {
				t.Now, later.Now = later.Now, t.Now
			}
			r.take(t)
			r.take(&later)
			r.take(&later)
		}
	}
}

// overdrawnLog: a log that counts denied requests is overdrawn by a cost that another limit denies.
func overdrawnLog(r scenarioRecorder) {
	log := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 4, Window: time.Minute, CountDenied: true, Overdraft: 9}.MustCompile()
	spent := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 1, Window: time.Hour}.MustCompile()
	for entries := range int64(5) {
		for _, cost := range []int64{1, 3, 4, 5, 9} {
			t := one(monday, stranger(), charge(log, cost), charge(spent, 1))
			t.Groups[0].Charges[0].Overdraw = true
			r.take(one(monday, t.Groups[0].Subject, charge(spent, 1)))
			for range entries {
				r.take(one(monday, t.Groups[0].Subject, charge(log, 1)))
			}
			r.take(t)
			r.take(one(monday, t.Groups[0].Subject, charge(log, 0)))
		}
	}
}

// strikesAtTheEnd: strikes as far apart as possible, on a clock that runs and on one that steps back.
func strikesAtTheEnd(r scenarioRecorder) {
	spent := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1, Window: 300 * time.Hour}.MustCompile()
	hour := seconds(3600) // strikes count within it
	for _, step := range aroundIt(hour) {
		for _, instants := range [][]algorithm.Instant{{0, step, step + 1}, {0, 1, step}, {0, 1, step + 1}, {step, 0, step + 1, hour + 10}, {step, 0, hour - 1, hour, hour + 1, hour + 2}} {
			t := one(monday, stranger(), charge(spent, 1))
			t.Groups[0].Penalty = penaltyOf(3, time.Minute, 200*time.Hour)
			r.take(t)
			for _, at := range instants {
				t.Now = monday + at
				r.take(t)
			}
			t.Now = monday + 2*hour
			r.take(t)
		}
	}
}

// settledStrikes: a settlement strikes when the subject's ban ends.
func settledStrikes(r scenarioRecorder) {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Hour}.MustCompile()
	penalty := penaltyOf(1, time.Minute, time.Hour)
	for _, now := range aroundIt(monday + seconds(60)) {
		t := one(monday, stranger(), charge(m, 1))
		t.Groups[0].Penalty, t.Groups[0].Reserve = penalty, time.Hour
		r.take(t)
		r.Ban(context.Background(), &storage.Ban{Now: monday, Subject: t.Groups[0].Subject, Penalty: penalty, Length: time.Minute})
		s := settlement(t, storage.Settle)
		s.Now, s.Strike = now, penalty
		r.Settle(context.Background(), s, new(storage.SettleOutcome))
		t.Now, t.Nonce = now, t.Nonce+1
		r.take(t)
	}
}

// liftAndStepBack: a ban is lifted, then the clock steps back.
func liftAndStepBack(r scenarioRecorder) {
	spent := algorithm.Limit{Algorithm: algorithm.SlidingWindowLog, Count: 1, Window: 300 * time.Hour}.MustCompile()
	t := one(monday, stranger(), charge(spent, 1))
	g := &t.Groups[0]
	g.Penalty = penaltyOf(1, time.Minute, time.Hour)
	r.take(t)
	r.take(t)
	r.Ban(context.Background(), &storage.Ban{Now: monday + seconds(10), Subject: g.Subject, Penalty: g.Penalty})
	peek := one(monday, g.Subject, charge(spent, 0))
	peek.Groups[0].Penalty = g.Penalty
	other := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: time.Hour}.MustCompile()
	free := one(monday+seconds(5), g.Subject, charge(other, 1))
	free.Groups[0].Penalty = g.Penalty
	r.take(free)
	for _, at := range []algorithm.Instant{monday + seconds(5), monday + seconds(3605), monday + seconds(3606), monday + seconds(3610)} {
		peek.Now = at
		r.take(peek)
	}
}

// overdrawnCounter: a previous window fades in ticks that are longer than a microsecond.
func overdrawnCounter(r scenarioRecorder) {
	for _, window := range []time.Duration{time.Second, 7 * time.Second, 11 * time.Hour, 40 * 24 * time.Hour} {
		length := algorithm.Instant(window.Microseconds())
		start := monday - monday%length
		for i := range algorithm.Instant(12) {
			const many = 100_000_000 // so that a part of a tick would show
			m := algorithm.Limit{Algorithm: algorithm.SlidingWindowCounter, Count: many, Window: window, Overdraft: 500}.MustCompile()
			who := stranger()
			r.take(one(start+1, who, charge(m, many-3)))
			over := one(start+length+length*i/12+i*137+1, who, algorithm.Charge{Meter: m, Cost: 2 * many, Overdraw: true})
			r.take(over)
			r.take(one(over.Now, who, charge(m, 0)))
		}
	}
}

// intervalStepBack: a clock steps back by exactly one interval.
func intervalStepBack(r scenarioRecorder) {
	m := algorithm.Limit{Algorithm: algorithm.TokenBucket, Refill: algorithm.Interval, Count: 3, Window: 10 * time.Second}.MustCompile()
	start := monday - monday%seconds(10)
	for _, back := range aroundIt(start) {
		who := stranger()
		r.take(one(start+seconds(10), who, charge(m, 2)))
		for _, cost := range []int64{0, 2, 1, 1} {
			r.take(one(back, who, charge(m, cost)))
		}
	}
}

// lateGiveBacks: charges are settled while their windows end, with others before and after them.
func lateGiveBacks(r scenarioRecorder) {
	window := seconds(10)
	for _, m := range returnable(eachKind(10 * time.Second)) {
		if m.Kind != algorithm.KindLeases {
			l := m.Limit()
			l.Count = 9
			m = l.MustCompile()
		}
		aligned := monday - monday%window
		for _, from := range []algorithm.Instant{aligned, aligned + window/3, aligned + window - 1} {
			for _, offset := range []algorithm.Instant{-window, 0, window, 2 * window} {
				for _, now := range aroundIt(from + offset) {
					for _, other := range []algorithm.Instant{from - 1, from, from + window} {
						for _, cost := range []int64{0, 2, 5} {
							t := one(from, stranger(), charge(m, 3))
							g := &t.Groups[0]
							g.Reserve = time.Hour
							if other <= from {
								r.take(one(other, g.Subject, charge(m, 1)))
							}
							r.take(t)
							r.take(one(other, g.Subject, charge(m, 2)))
							r.settle(now, t, storage.Settle, cost)
							for _, later := range []algorithm.Instant{now, from + window, now + window} {
								r.take(one(later, g.Subject, charge(m, 0)))
							}
							r.take(one(from+window, g.Subject, charge(m, 1)))
							r.take(one(from+window, g.Subject, charge(m, 0)))
							r.settle(now, t, storage.Settle, 5)
						}
					}
				}
			}
		}
	}
}

// renewedLeases: permits of different lengths are renewed together, some of them expired.
func renewedLeases(r scenarioRecorder) {
	short := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 2, Window: time.Minute}.MustCompile()
	long := algorithm.Limit{Algorithm: algorithm.Concurrency, Count: 2, Window: time.Hour, Ordinal: 1}.MustCompile()
	for _, charges := range [][]algorithm.Charge{{charge(short, 1), charge(long, 1)}, {charge(long, 1), charge(short, 1)}} {
		for _, reserve := range []time.Duration{0, time.Hour} {
			for _, now := range aroundIt(monday + seconds(60)) {
				for _, verb := range []storage.Verb{storage.Renew, storage.Release, storage.Settle} {
					t := one(monday, stranger(), charges...)
					t.Groups[0].Reserve = reserve
					r.take(t)
					r.settle(now, t, verb, 1)
					r.take(one(now, t.Groups[0].Subject, charge(short, 0), charge(long, 0)))
					r.settle(now+1, t, storage.Renew, 1)
					r.settle(now+2, t, storage.Release, 1)
					r.settle(now+3, t, storage.Release, 1)
					r.take(one(now+3, t.Groups[0].Subject, charge(short, 0), charge(long, 0)))
				}
			}
		}
	}
}

// reservationsEnd: a reservation is settled when it ends, and by a clock that is days behind.
func reservationsEnd(r scenarioRecorder) {
	m := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 9, Window: 300 * 24 * time.Hour}.MustCompile()
	for _, verb := range []storage.Verb{storage.Settle, storage.Release, storage.Renew} {
		for _, end := range []algorithm.Instant{monday + seconds(60), monday.Add(time.Minute - 2*storage.MaxReserve)} {
			for _, now := range aroundIt(end) {
				t := one(monday, stranger(), charge(m, 2))
				t.Groups[0].Reserve = time.Minute
				r.take(t)
				r.settle(now, t, verb, 1)
				r.take(one(now, t.Groups[0].Subject, charge(m, 0)))
			}
		}
	}
}

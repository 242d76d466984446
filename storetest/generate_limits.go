package storetest

import (
	"math/rand/v2"
	"time"
	_ "time/tzdata" // zones must be the same wherever the suite runs

	"github.com/penstock-io/penstock/algorithm"
)

// windows are lengths on both sides of every change of tick (10 s and 10 h), and the extremes.
var windows = []time.Duration{
	time.Millisecond, 10 * time.Millisecond, 999 * time.Millisecond, time.Second, 7 * time.Second, 10 * time.Second,
	10*time.Second + time.Millisecond, time.Minute, 90 * time.Second, time.Hour, 10 * time.Hour,
	10*time.Hour + time.Second, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, algorithm.MaxWindow,
}

// zones: none, whole hours, quarters, half-hour clock changes, clocks that skip midnight or a day, and
// (until 2011 in St. John's) clocks that went back over midnight.
var zones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Beirut",
	"Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns",
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// often returns true with the given percentage.
func often(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// upTo returns a number up to and including most. Small values are as likely as all larger ones together.
func upTo(r *rand.Rand, most int64) int64 {
	if most <= 0 {
		return 0
	}
	if often(r, 50) {
		most = min(most, 12)
	}
	return r.Int64N(most + 1)
}

// anyMeter returns a random meter of the kind.
func anyMeter(r *rand.Rand, kind algorithm.Kind) *algorithm.Meter {
	for { // most combinations are valid, but not all
		l := algorithm.Limit{Window: pick(r, windows...), Count: anyCount(r), Ordinal: pick[uint8](r, 0, 0, 0, 1, algorithm.MaxOrdinal)}
		countDenied := often(r, 30)
		switch kind {
		case algorithm.KindWindow:
			l.Algorithm, l.CountDenied = algorithm.FixedWindow, countDenied
		case algorithm.KindCalendar:
			l.Algorithm, l.CountDenied = algorithm.FixedWindow, countDenied
			l.Window, l.Period = 0, pick(r, algorithm.Hour, algorithm.Day, algorithm.Week, algorithm.Month, algorithm.Year)
			l.Location = location(pick(r, zones...))
		case algorithm.KindCounter:
			l.Algorithm, l.CountDenied = algorithm.SlidingWindowCounter, countDenied
		case algorithm.KindBucket:
			l.Algorithm, l.Burst = algorithm.TokenBucket, pick(r, 0, 1, anyCount(r))
		case algorithm.KindInterval:
			l.Algorithm, l.Refill, l.Burst = algorithm.TokenBucket, algorithm.Interval, pick(r, 0, 1, anyCount(r))
		case algorithm.KindLeaky:
			l.Algorithm, l.Queue = algorithm.LeakyBucket, pick(r, 0, 1, anyCount(r))
		case algorithm.KindLog:
			l.Algorithm, l.CountDenied = algorithm.SlidingWindowLog, countDenied
		case algorithm.KindLeases:
			l.Algorithm, l.Count = algorithm.Concurrency, min(l.Count, 1+r.Int64N(5))
		}
		if m, err := l.Compile(); err == nil {
			return m
		}
	}
}

// anyCount returns a count that is usually small enough to be reached, and sometimes the largest allowed.
func anyCount(r *rand.Rand) int64 {
	switch r.IntN(20) {
	case 0:
		return 0
	case 1:
		return 1_000_000
	case 2:
		return 1 + r.Int64N(algorithm.MaxCount)
	case 3, 4, 5:
		return 1 + r.Int64N(300)
	}
	return 1 + r.Int64N(10)
}

// changed returns the limit with other numbers that keep its state, or the same limit if none are valid.
func changed(r *rand.Rand, m *algorithm.Meter) *algorithm.Meter {
	l := m.Limit()
	switch {
	case often(r, 50):
		l.Count = max(0, l.Count+r.Int64N(7)-3)
	case often(r, 50):
		l.Count = anyCount(r)
	}
	switch l.Algorithm {
	case algorithm.TokenBucket:
		l.Burst = pick(r, l.Burst, 0, 1+r.Int64N(20))
	case algorithm.LeakyBucket:
		l.Queue = pick(r, l.Queue, 0, 1+r.Int64N(20))
	case algorithm.FixedWindow, algorithm.SlidingWindowCounter, algorithm.SlidingWindowLog:
		l.CountDenied = often(r, 30)
	}
	if other, err := l.Compile(); err == nil {
		return other
	}
	return m
}

var locations = map[string]*time.Location{}

func init() {
	for _, name := range zones {
		loc, err := time.LoadLocation(name)
		if err != nil {
			panic(err) // the zones are embedded
		}
		locations[name] = loc
	}
}

func location(name string) *time.Location { return locations[name] }

package httplimit

import (
	"math/rand/v2"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// timedLimit returns a random limit of any algorithm but concurrency, whose permits come back when they are released.
func timedLimit(r *rand.Rand) algorithm.Limit {
	l := algorithm.Limit{
		Algorithm: []algorithm.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindowLog, algorithm.SlidingWindowCounter, algorithm.TokenBucket, algorithm.TokenBucket, algorithm.LeakyBucket}[r.IntN(6)],
		Count:     1 + r.Int64N(12),
		Window:    []time.Duration{time.Second, 7 * time.Second, time.Minute, time.Hour, 24 * time.Hour}[r.IntN(5)],
	}
	switch l.Algorithm {
	case algorithm.TokenBucket:
		l.Refill = algorithm.Refill(r.IntN(2))
		l.Burst, l.Overdraft = l.Count+r.Int64N(5), r.Int64N(4)
	case algorithm.LeakyBucket:
		l.Queue = r.Int64N(12)
	case algorithm.FixedWindow:
		l.Overdraft = r.Int64N(4)
	}
	return l
}

// A timedKey is one key of one limit in a store whose tickets bring their own time.
type timedKey struct {
	t     *testing.T
	store *memstore.Store
	meter *algorithm.Meter
	now   algorithm.Instant
}

// try returns the decision that a cost would get at an instant. It charges nothing.
func (k *timedKey) try(at algorithm.Instant, cost int64) algorithm.Decision {
	return k.decide(at, algorithm.Charge{Meter: k.meter, Cost: cost}, true)
}

func (k *timedKey) decide(at algorithm.Instant, c algorithm.Charge, dry bool) algorithm.Decision {
	var out storage.Outcome
	ticket := storage.Ticket{Now: at, Nonce: 1, MaxDelay: 365 * 24 * time.Hour, Denied: dry, Groups: []storage.Group{{Charges: []algorithm.Charge{c}}}}
	if err := k.store.Take(k.t.Context(), &ticket, &out); err != nil {
		k.t.Fatal(err)
	}
	return out.Decisions[0]
}

// first returns after how long, at most 60 days, a condition holds that stays true from then on.
func (k *timedKey) first(is func(at algorithm.Instant) bool) time.Duration {
	µs := sort.Search(int(60*24*time.Hour/time.Microsecond), func(n int) bool { return is(k.now + algorithm.Instant(n)) })
	return time.Duration(µs) * time.Microsecond
}

// What responses say about time is what happens: after Retry-After the request passes and not before, at the reset the
// limit is whole and not before, and after t more is left. Under a sliding window t may
// be later.
func TestTimesAreWhatHappens(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		l := timedLimit(r)
		m, err := l.Compile()
		if err != nil {
			continue // the numbers do not fit
		}
		store, err := memstore.New(memstore.Options{MaxBytes: memstore.MinBytes})
		if err != nil {
			t.Fatal(err)
		}
		k := &timedKey{t, store, m, algorithm.InstantOf(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) + algorithm.Instant(r.Int64N(1e10))}
		for range 12 {
			k.now += algorithm.Instant(r.Int64N(2 * m.Window / m.Count))
			cost := 1 + r.Int64N(3)
			c := algorithm.Charge{Meter: m, Cost: cost, Overdraw: l.Overdraft > 0 && r.IntN(2) == 0}
			k.check(l, k.decide(k.now, c, false), c.Need())
		}
		store.Close()
	}
}

func (k *timedKey) check(l algorithm.Limit, d algorithm.Decision, cost int64) {
	k.t.Helper()
	fail := func(what string, got, want any) {
		k.t.Helper()
		k.t.Errorf("%v at %d: %s is %v, want %v: %+v", k.meter, k.now, what, got, want, d)
	}
	if !d.Allowed && d.RetryAfter != penstock.Never {
		if want := k.first(func(at algorithm.Instant) bool { return k.try(at, cost).Allowed }); d.RetryAfter != want {
			fail("retry after", d.RetryAfter, want)
		}
	}
	if want := k.first(func(at algorithm.Instant) bool { return k.try(at, 0).Used == 0 }); d.ResetAfter != want {
		fail("reset after", d.ResetAfter, want)
	}
	got, ok := k.field(l, d)
	if !d.Allowed || d.ResetAfter <= 0 {
		return // t is Retry-After, or there is none
	}
	if want := k.first(func(at algorithm.Instant) bool { return k.try(at, 0).Remaining > d.Remaining }); !ok {
		fail("t", "missing", want)
	} else if isSliding := l.Algorithm == algorithm.SlidingWindowLog || l.Algorithm == algorithm.SlidingWindowCounter; isSliding {
		if got < ceilSeconds(want) || got > ceilSeconds(d.ResetAfter) {
			fail("t", got, want)
		}
	} else if got != ceilSeconds(want) && got != ceilSeconds(want+time.Duration(k.meter.Tick)*time.Microsecond) {
		fail("t", got, want)
	}
}

// field returns t of the field RateLimit.
func (k *timedKey) field(l algorithm.Limit, d algorithm.Decision) (seconds int64, ok bool) {
	h := http.Header{}
	newWriter(k.t).Headers(h, &penstock.Verdict{Allowed: d.Allowed, Limits: []penstock.LimitVerdict{{
		Policy: "p", Algorithm: l.Algorithm, Refill: l.Refill, Count: l.Count, Window: l.Window, Decision: d,
	}}})
	_, text, ok := strings.Cut(lines(h, "RateLimit")[0], ";t=")
	if !ok {
		return 0, false
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		k.t.Fatal(err)
	}
	return seconds, true
}

package algorithm

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	atMost  = regexp.MustCompile(`at most (\d+)$`)
	example = regexp.MustCompile(`for example (\S+)$`)
)

// heed changes the limit as its errors suggest and reports whether they suggested anything.
func heed(l Limit, err error) (_ Limit, field string, ok bool) {
	most := int64(math.MaxInt64)
	for _, e := range fieldErrors(err) {
		if m := example.FindStringSubmatch(e.Problem); m != nil {
			days, rest, isLong := strings.Cut(m[1], "d")
			if !isLong {
				days, rest = "0", m[1]
			}
			n, _ := strconv.Atoi(days)
			l.Window, _ = time.ParseDuration("0s" + rest)
			l.Window += time.Duration(n) * 24 * time.Hour
			return l, e.Field, true
		}
		if m := atMost.FindStringSubmatch(e.Problem); m != nil && e.Field != "ordinal" {
			n, _ := strconv.ParseInt(m[1], 10, 64)
			most, field = min(most, n), e.Field
		}
	}
	switch field {
	case "count":
		l.Count = most
	case "burst":
		l.Burst = most
	case "queue":
		l.Queue = most
	case "overdraft":
		l.Overdraft = most
	}
	return l, field, field != ""
}

func oneMore(l Limit, field string) Limit {
	switch field {
	case "count":
		l.Count++
	case "burst":
		l.Burst++
	case "queue":
		l.Queue++
	case "overdraft":
		l.Overdraft++
	}
	return l
}

// An error suggests the largest valid number: it compiles, and one more does not.
func TestSuggestionsAreTheLargest(t *testing.T) {
	var tried []string
	for _, a := range []Algorithm{SlidingWindowCounter, TokenBucket, LeakyBucket} {
		for _, w := range []time.Duration{MinWindow, 7 * time.Millisecond, time.Second, 10 * time.Second, 10*time.Second + time.Millisecond, time.Hour,
			10 * time.Hour, 10*time.Hour + time.Second, 24 * time.Hour, 100 * 24 * time.Hour, MaxWindow} {
			for _, count := range []int64{1, 7, 1000, 600_000_000, MaxCount / 2, MaxCount - 1, MaxCount} {
				for _, refill := range []Refill{Continuous, Interval} {
					l := Limit{Algorithm: a, Count: count, Window: w}
					switch a {
					case TokenBucket:
						l.Refill, l.Burst = refill, MaxCount
					case LeakyBucket:
						l.Queue = MaxCount - 1
					}
					suggested, field, ok := heed(l, l.Validate())
					if !ok {
						continue
					}
					tried = append(tried, field)
					if err := suggested.Validate(); err != nil {
						t.Errorf("%v: the suggested %v does not do: %v", l, suggested, err)
					}
					if more := oneMore(suggested, field); more.Validate() == nil {
						t.Errorf("%v: %v is suggested, and %v would do", l, suggested, more)
					}
				}
			}
		}
	}
	for _, field := range []string{"count", "burst", "queue"} {
		if !slices.Contains(tried, field) {
			t.Errorf("no suggestion of a %s was tried", field)
		}
	}
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 1, Window: time.Second + 1},
		{Algorithm: TokenBucket, Count: 1, Window: 10*time.Second + 1},
		{Algorithm: TokenBucket, Count: 1, Window: 10*time.Hour + 1},
		{Algorithm: LeakyBucket, Count: 1, Window: MaxWindow - 1},
	} {
		suggested, field, _ := heed(l, l.Validate())
		if err := suggested.Validate(); err != nil || field != "window" {
			t.Errorf("%v: the suggested %v does not do: %v", l, suggested, err)
		}
	}
}

// The same for an overdraft, with a capacity that is valid by itself.
func TestSuggestedOverdraftsAreTheLargest(t *testing.T) {
	tried := 0
	for _, base := range []Limit{
		{Algorithm: SlidingWindowCounter, Count: 1, Window: time.Minute},
		{Algorithm: SlidingWindowCounter, Count: 1_000_000, Window: 24 * time.Hour},
		{Algorithm: TokenBucket, Count: 1, Window: MinWindow},
		{Algorithm: TokenBucket, Count: 1_000_000, Window: 10 * time.Second},
		{Algorithm: TokenBucket, Count: MaxCount, Window: time.Minute, Burst: 1},
		{Algorithm: TokenBucket, Count: 1, Window: 24 * time.Hour, Burst: 300},
		{Algorithm: TokenBucket, Count: 1, Window: 24 * time.Hour, Burst: 366}, // nothing is left
		{Algorithm: TokenBucket, Count: 1, Window: 24 * time.Hour, Burst: 366, Refill: Interval},
		{Algorithm: TokenBucket, Count: 7, Window: MaxWindow, Burst: 3, Refill: Interval},
		{Algorithm: TokenBucket, Count: 7, Window: MaxWindow, Burst: 3},
	} {
		l := base
		l.Overdraft = MaxCount - l.capacity()
		suggested, field, ok := heed(l, l.Validate())
		if !ok || field != "overdraft" {
			t.Errorf("%v: %v suggests no overdraft", l, l.Validate())
			continue
		}
		tried++
		if err := suggested.Validate(); err != nil {
			t.Errorf("%v: the suggested %v does not do: %v", l, suggested, err)
		}
		if more := oneMore(suggested, field); more.Validate() == nil {
			t.Errorf("%v: %v is suggested, and %v would do", l, suggested, more)
		}
	}
	if tried < 10 {
		t.Errorf("only %d were tried", tried)
	}
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: 5, Window: time.Minute, Overdraft: MaxCount - 5},
		{Algorithm: SlidingWindowLog, Count: 5, Window: time.Minute, Overdraft: MaxCount - 5},
		{Algorithm: FixedWindow, Window: time.Minute, Overdraft: MaxCount},
	} {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
		if err := oneMore(l, "overdraft").Validate(); err == nil || l.Count > 0 && !strings.Contains(err.Error(), "must be at most 999999999995 beside a capacity of 5") {
			t.Errorf("%v, one more: %v", l, err)
		}
	}
}

// Debts keep the same bound: no level exceeds 2^52, however deep.
func TestProductBoundOfDebts(t *testing.T) {
	for _, l := range []Limit{
		{Algorithm: TokenBucket, Count: MaxCount, Burst: 1, Window: 10 * time.Second, Overdraft: (1<<52-1)/10_000_000 - 1},
		{Algorithm: SlidingWindowCounter, Count: 1, Window: 10 * time.Hour, Overdraft: (1<<52-1)/36_000_000 - 1},
	} {
		b := newBook(t, l)
		d := b.overdraw(epoch, MaxCount)
		if want := 1 + l.Overdraft; d.Used != want || d.Receipt.Cost != want || b.state.Used > maxProduct || b.meter.Most >= maxProduct {
			t.Errorf("%v: %+v, %+v", l, d, b.state)
		}
		if oneMore(l, "overdraft").Validate() == nil {
			t.Errorf("%v: one more passes 2^52 and is accepted", l)
		}
	}
}

// The product of capacity and window in ticks stays below 2^52, and the whole range below is used.
func TestProductBound(t *testing.T) {
	for window, ticks := range map[time.Duration]int64{
		1 << 20 * time.Microsecond:        1 << 20, // which divides 2^52
		10 * time.Second:                  10_000_000,
		10*time.Second + time.Millisecond: 10_001,
		10 * time.Hour:                    36_000_000,
		10*time.Hour + time.Second:        36_001,
		MaxWindow:                         366 * 86400,
	} {
		most := (int64(1)<<52 - 1) / ticks
		for _, l := range []Limit{
			{Algorithm: SlidingWindowCounter, Count: most, Window: window},
			{Algorithm: TokenBucket, Count: most, Window: window},
			{Algorithm: TokenBucket, Count: MaxCount, Burst: most, Window: window},
			{Algorithm: LeakyBucket, Count: MaxCount, Queue: most - 1, Window: window},
		} {
			m := compile(t, l)
			if m.Full >= 1<<52 || m.Full < 1<<52-ticks || m.Ticks != ticks {
				t.Errorf("%v: full at %d of %d, %d ticks; want %d", l, m.Full, int64(1)<<52, m.Ticks, ticks)
			}
			field := map[bool]string{true: "queue", false: "count"}[l.Algorithm == LeakyBucket]
			if l.Burst != 0 {
				field = "burst"
			}
			if err := oneMore(l, field).Validate(); err == nil {
				t.Errorf("%v: one more %s passes 2^52 and is accepted", l, field)
			}
		}
	}
}

func TestAMillionADay(t *testing.T) {
	const million, day = 1_000_000, 24 * time.Hour
	for _, l := range []Limit{
		{Algorithm: FixedWindow, Count: million, Window: day},
		{Algorithm: FixedWindow, Count: million, Window: day, CountDenied: true},
		{Algorithm: FixedWindow, Count: million, Period: Day},
		{Algorithm: SlidingWindowCounter, Count: million, Window: day},
		{Algorithm: TokenBucket, Count: million, Window: day},
		{Algorithm: TokenBucket, Count: million, Window: day, Burst: 10 * million},
		{Algorithm: TokenBucket, Count: million, Window: day, Refill: Interval},
		{Algorithm: LeakyBucket, Count: million, Window: day, Queue: million},
	} {
		m := compile(t, l)
		s, passes, _ := m.Weigh(State{}, epoch, million, AnyDelay)
		if s = m.Charge(s, million); !passes || m.Report(epoch, Result{State: s, Cost: million, Passes: true, Taken: true, MaxDelay: AnyDelay}).Used != million {
			t.Errorf("%v: the million does not pass, or not as a million", l)
		}
	}
	// The two that keep an entry for each request report their maximum.
	for _, l := range []Limit{{Algorithm: SlidingWindowLog, Count: million, Window: day}, {Algorithm: Concurrency, Count: million, Window: day}} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "100000") {
			t.Errorf("%v: %v", l, err)
		}
	}
}

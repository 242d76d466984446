package algorithm

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fieldErrors returns the errors of single fields in what Validate returned.
func fieldErrors(err error) (found []*FieldError) {
	switch e := err.(type) {
	case *FieldError:
		return []*FieldError{e}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, fieldErrors(inner)...)
		}
	}
	return found
}

func TestBadLimits(t *testing.T) {
	const minute, day = time.Minute, 24 * time.Hour
	berlin := zoneNamed(t, "Europe/Berlin")
	window := func(l Limit) Limit { l.Algorithm, l.Window = FixedWindow, minute; return l }
	log := func(l Limit) Limit { l.Algorithm, l.Window = SlidingWindowLog, minute; return l }
	counter := func(l Limit) Limit { l.Algorithm, l.Window = SlidingWindowCounter, minute; return l }
	bucket := func(l Limit) Limit { l.Algorithm, l.Window = TokenBucket, minute; return l }
	leaky := func(l Limit) Limit { l.Algorithm, l.Window = LeakyBucket, minute; return l }
	leases := func(l Limit) Limit { l.Algorithm, l.Window = Concurrency, minute; return l }
	every := func(a Algorithm, w time.Duration) Limit { return Limit{Algorithm: a, Count: 1, Window: w} }

	tests := []struct {
		fields string // all of them, in the order reported
		limit  Limit
	}{
		{"algorithm", Limit{}},
		{"algorithm", Limit{Algorithm: 7, Count: 1, Window: minute}},
		{"algorithm", Limit{Algorithm: 255, Count: -1, Window: -1}},

		{"count", window(Limit{Count: -1})},
		{"count", window(Limit{Count: MaxCount + 1})},
		{"count", window(Limit{Count: math.MinInt64})},
		{"count", window(Limit{Count: math.MaxInt64})},
		{"count", log(Limit{Count: -1})},
		{"count", log(Limit{Count: MaxLog + 1})},
		{"count", counter(Limit{Count: -1})},
		{"count", counter(Limit{Count: MaxCount + 1})},
		{"count", bucket(Limit{Count: 0})},
		{"count", bucket(Limit{Count: -1})},
		{"count", bucket(Limit{Count: MaxCount + 1})},
		{"count", bucket(Limit{Count: 0, Burst: 5})},
		{"count", bucket(Limit{Count: 0, Refill: Interval})},
		{"count", leaky(Limit{Count: 0})},
		{"count", leaky(Limit{Count: -1, Queue: 5})},
		{"count", leaky(Limit{Count: MaxCount + 1})},
		{"count", leases(Limit{Count: 0})},
		{"count", leases(Limit{Count: -1})},
		{"count", leases(Limit{Count: MaxLog + 1})},

		{"burst", bucket(Limit{Count: 1, Burst: -1})},
		{"burst", bucket(Limit{Count: 1, Burst: MaxCount + 1})},
		{"burst", bucket(Limit{Count: 1, Burst: math.MaxInt64})},
		{"burst", window(Limit{Count: 1, Burst: 1})},
		{"burst", log(Limit{Count: 1, Burst: 1})},
		{"burst", counter(Limit{Count: 1, Burst: 1})},
		{"burst", leaky(Limit{Count: 1, Burst: 1})},
		{"burst", leases(Limit{Count: 1, Burst: 1})},
		{"burst burst", window(Limit{Count: 1, Burst: -1})},

		{"queue", leaky(Limit{Count: 1, Queue: -1})},
		{"queue", leaky(Limit{Count: 1, Queue: MaxCount})},
		{"queue", leaky(Limit{Count: 1, Queue: math.MaxInt64})},
		{"queue", window(Limit{Count: 1, Queue: 1})},
		{"queue", log(Limit{Count: 1, Queue: 1})},
		{"queue", counter(Limit{Count: 1, Queue: 1})},
		{"queue", bucket(Limit{Count: 1, Queue: 1})},
		{"queue", leases(Limit{Count: 1, Queue: 1})},

		{"ordinal", window(Limit{Count: 1, Ordinal: MaxOrdinal + 1})},
		{"ordinal", leases(Limit{Count: 1, Ordinal: 255})},

		{"window", every(FixedWindow, 0)},
		{"window", every(FixedWindow, -time.Minute)},
		{"window", every(FixedWindow, MinWindow-1)},
		{"window", every(FixedWindow, MaxWindow+1)},
		{"window", every(FixedWindow, math.MaxInt64)},
		{"window", every(FixedWindow, math.MinInt64)},
		{"window", every(FixedWindow, MinWindow+1)},
		{"window", every(SlidingWindowLog, time.Second+time.Nanosecond)},
		{"window", every(SlidingWindowCounter, MinWindow+999)},
		{"window", every(SlidingWindowCounter, 10*time.Second+time.Microsecond)},
		{"window", every(TokenBucket, minute+time.Microsecond)},
		{"window", every(TokenBucket, 10*time.Hour+time.Millisecond)},
		{"window", every(LeakyBucket, day+time.Millisecond)},
		{"window", every(LeakyBucket, 0)},
		{"window", every(Concurrency, 0)},
		{"window", every(Concurrency, MaxWindow+time.Second)},
		{"window", Limit{Algorithm: FixedWindow, Count: 1, Window: minute, Period: Day}},

		{"period", Limit{Algorithm: FixedWindow, Count: 1, Period: 6}},
		{"period", Limit{Algorithm: FixedWindow, Count: 1, Period: 255, Location: berlin}},
		{"period", Limit{Algorithm: SlidingWindowLog, Count: 1, Period: Day}},
		{"period", Limit{Algorithm: SlidingWindowCounter, Count: 1, Period: Day}},
		{"period", Limit{Algorithm: TokenBucket, Count: 1, Period: Day}},
		{"period", Limit{Algorithm: TokenBucket, Count: 1, Period: Day, Refill: Interval}},
		{"period", Limit{Algorithm: LeakyBucket, Count: 1, Period: Day}},
		{"period", Limit{Algorithm: Concurrency, Count: 1, Period: Day}},
		{"timezone", window(Limit{Count: 1, Location: berlin})},
		{"timezone", bucket(Limit{Count: 1, Location: time.UTC})},

		{"refill", bucket(Limit{Count: 1, Refill: 2})},
		{"refill", window(Limit{Count: 1, Refill: Interval})},
		{"refill", leaky(Limit{Count: 1, Refill: Interval})},
		{"refill", leases(Limit{Count: 1, Refill: 9})},

		{"count_all", log(Limit{Count: 1, CountAll: true})},
		{"count_all", window(Limit{Count: 1, CountAll: true, CountDenied: true})},
		{"count_all", window(Limit{Count: 1, CountAll: true, Overdraft: 1})},
		{"count_denied", bucket(Limit{Count: 1, CountDenied: true})},
		{"count_denied", leaky(Limit{Count: 1, CountDenied: true})},
		{"count_denied", leases(Limit{Count: 1, CountDenied: true})},

		{"overdraft", window(Limit{Count: 1, Overdraft: -1})},
		{"overdraft", window(Limit{Count: 1, Overdraft: MaxCount})},
		{"overdraft", window(Limit{Count: MaxCount, Overdraft: 1})},
		{"overdraft", window(Limit{Overdraft: MaxCount + 1})},
		{"overdraft", window(Limit{Count: 1, Overdraft: math.MinInt64})},
		{"overdraft", window(Limit{Count: 1, Overdraft: math.MaxInt64})},
		{"overdraft", log(Limit{Count: 1, Overdraft: MaxCount})},
		{"overdraft", log(Limit{Count: 1, Overdraft: -1})},
		{"overdraft", counter(Limit{Count: 1, Overdraft: -1})},
		{"overdraft", bucket(Limit{Count: 1, Burst: 2, Overdraft: MaxCount - 1})},
		{"overdraft", bucket(Limit{Count: 1, Overdraft: -1, Refill: Interval})},
		{"overdraft", leaky(Limit{Count: 1, Overdraft: 1})},
		{"overdraft", leases(Limit{Count: 1, Overdraft: 1})},
		{"overdraft overdraft", leaky(Limit{Count: 1, Overdraft: -1})},
		{"count", window(Limit{Count: MaxCount + 1, Overdraft: 1})},
		{"count overdraft", window(Limit{Count: math.MaxInt64, Overdraft: math.MaxInt64})},
		{"burst", bucket(Limit{Count: 1, Burst: math.MaxInt64, Overdraft: 1})},
		{"overdraft", counter(Limit{Count: 1, Overdraft: MaxCount - 1})},
		{"overdraft", bucket(Limit{Count: MaxCount, Burst: 1, Overdraft: MaxCount - 1})},
		{"overdraft", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Overdraft: 366}},
		{"overdraft", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Overdraft: 366, Refill: Interval}},
		{"overdraft overdraft", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Overdraft: MaxCount - 1}},

		{"count", counter(Limit{Count: MaxCount})},
		{"count", bucket(Limit{Count: MaxCount})},
		{"burst", bucket(Limit{Count: MaxCount, Burst: MaxCount})},
		{"queue", leaky(Limit{Count: MaxCount, Queue: MaxCount - 1})},
		{"burst", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Burst: 367}},
		{"burst", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Burst: 367, Refill: Interval}},
		{"burst", Limit{Algorithm: TokenBucket, Count: 600_000_000_000, Window: MaxWindow, Burst: MaxCount, Refill: Interval}},
		{"queue", Limit{Algorithm: LeakyBucket, Count: 1, Window: day, Queue: 366}},
		{"burst burst", Limit{Algorithm: TokenBucket, Count: 1, Window: day, Burst: MaxCount}},
		{"queue queue", Limit{Algorithm: LeakyBucket, Count: 1, Window: day, Queue: MaxCount - 1}},

		{"count window", Limit{Algorithm: TokenBucket}},
		{"count window timezone queue count_denied", Limit{Algorithm: TokenBucket, Count: -5, Window: 1, Location: berlin, Queue: 3, CountDenied: true}},
		{"count burst queue ordinal window period burst refill queue count_denied",
			Limit{Algorithm: Concurrency, Count: -1, Burst: -1, Queue: -1, Ordinal: 99, Window: 1, Period: Day, Refill: 7, CountDenied: true}},
	}
	if len(tests) < 60 {
		t.Errorf("only %d bad limits", len(tests))
	}
	for _, test := range tests {
		err := test.limit.Validate()
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: error %v, want one that is ErrInvalid", test.limit, err)
			continue
		}
		var fields []string
		for _, e := range fieldErrors(err) {
			fields = append(fields, e.Field)
			if !strings.Contains(err.Error(), e.Error()) || !strings.HasPrefix(e.Error(), e.Field+" ") || e.Problem == "" {
				t.Errorf("%+v: %q does not tell of %q", test.limit, err, e)
			}
		}
		if diff := cmp.Diff(strings.Fields(test.fields), fields); diff != "" {
			t.Errorf("%+v: %v: fields (-want +got)\n%s", test.limit, err, diff)
		}
		if m, compileErr := test.limit.Compile(); m != nil || compileErr == nil || compileErr.Error() != err.Error() {
			t.Errorf("%+v: Compile gives %v, %v; Validate %v", test.limit, m, compileErr, err)
		}
	}
}

func TestMustCompilePanicsOnAMistake(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, ErrInvalid) {
			t.Errorf("recovered %v, want an ErrInvalid", err)
		}
	}()
	Limit{}.MustCompile()
}

package envoyratelimit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/internal/rls"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

func hourly(count int) string {
	return fmt.Sprintf("domain: d\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: %d}}, {key: b, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 0}}]", count)
}

// errNotTaken says that nothing was charged.
var errNotTaken = fmt.Errorf("%w: %w", penstock.ErrUnavailable, storage.ErrNotTaken)

// Every descriptor is observed as a separate request, with its rule and key.
func TestObserve(t *testing.T) {
	type seen struct {
		key, rule, value string
		allowed          bool
		quality          penstock.Quality
		failed           bool
	}
	var got []seen
	observe := func(o *engine.Observation) {
		s := seen{key: o.Call.Attributes[0].Name, rule: o.Verdict.Rule, allowed: o.Verdict.Allowed, quality: o.Verdict.Quality, failed: errors.Is(o.Err, penstock.ErrUnavailable)}
		if len(o.Matched) > 0 {
			s.value = o.Matched[0].Key[0]
		}
		got = append(got, s)
	}
	for _, store := range []penstock.Store{&failing{err: errNotTaken}, newStore(t)} {
		s := newStand(t, hourly(0), testEngine{Store: store, Local: newStore(t), Now: at, Observe: observe})
		if a := s.ask(t, 1, "a1", "c1"); a.Allowed {
			t.Errorf("%+v", a)
		}
	}
	want := []seen{
		{"a", "d.a", "1", false, penstock.QualityLocal, true}, {"c", "", "", true, penstock.QualityExact, false},
		{"a", "d.a", "1", false, penstock.QualityExact, false}, {"c", "", "", true, penstock.QualityExact, false},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNeedsAnEngine(t *testing.T) {
	if _, err := NewLimiter(LimiterOptions{}); err == nil {
		t.Error("a limiter without an engine")
	}
}

// A limit in a descriptor must be one that stores support.
func TestImpossibleOverride(t *testing.T) {
	for _, together := range []bool{false, true} {
		s := newStand(t, hourly(0), testEngine{Store: newStore(t), Together: together})
		_, err := s.Limit(t.Context(), &rls.Request{Domain: "d", Descriptors: []rls.Descriptor{
			{Entries: entries("a", "1"), Cost: 1, Limit: &rls.Override{Count: 1, Window: 1}},
		}})
		if !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("together %v: %v", together, err)
		}
	}
}

// The deny cache answers a descriptor that is over its limit, until the window ends or the limit changes.
func TestDenyCache(t *testing.T) {
	const second = penstock.Instant(1_000_000)
	store := &failing{Store: newStore(t)}
	cache, err := denycache.New(storetest.Full(store), denycache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := at()
	hour := now - now%(3600*second)
	s := newStand(t, hourly(2), testEngine{Store: cache, Now: func() penstock.Instant { return now }})
	for i, step := range []struct {
		at      penstock.Instant
		count   int
		cost    int64
		keys    []string
		allowed bool
		asked   int
		wait    time.Duration
	}{
		{hour + 1, 2, 1, []string{"ax"}, true, 1, 0},
		{hour + 1, 2, 2, []string{"ax"}, false, 1, 0},
		{hour + 2, 2, 1, []string{"ax"}, false, 0, time.Hour - 2*time.Microsecond},
		{hour + 2, 2, 0, []string{"ax"}, false, 0, time.Hour - 2*time.Microsecond},
		{hour + 2, 2, 1, []string{"ax", "ax"}, false, 0, 0},
		{hour + 2, 2, 1, []string{"ax", "ay"}, false, 1, 0},
		{hour + 2, 5, 1, []string{"ax"}, true, 1, 0}, // the limit was raised: 4 were counted
		{hour + 2, 2, 1, []string{"ax"}, false, 0, 0},
		{hour + 60*second, 2, 1, []string{"ax"}, false, 0, 0},
		{hour + 60*second + 1, 2, 1, []string{"ax"}, false, 1, 0},
		{hour + 3600*second - 5, 2, 9, []string{"ax"}, false, 1, 5 * time.Microsecond},
		{hour + 3600*second - 1, 2, 9, []string{"ax"}, false, 0, time.Microsecond},
		{hour + 3600*second, 2, 1, []string{"ax"}, true, 1, 0},
		{hour + 3600*second, 2, 1, []string{"bx"}, true, 1, 0}, // in shadow mode
		{hour + 3600*second, 2, 1, []string{"bx"}, true, 0, 0},
	} {
		now, store.asked = step.at, 0
		s.serve(t, hourly(step.count))
		a := s.ask(t, step.cost, step.keys...)
		d := a.Each[0].Verdict.Decision
		if a.Allowed != step.allowed || store.asked != step.asked || step.wait != 0 && d.RetryAfter != step.wait {
			t.Errorf("step %d: allowed %v, want %v; asked %d times, want %d; wait %v, want %v", i, a.Allowed, step.allowed, store.asked, step.asked, d.RetryAfter, step.wait)
		}
		if !step.allowed && (d.Remaining != 0 || d.Limit != int64(step.count)) {
			t.Errorf("step %d: %+v", i, d)
		}
	}
	if hits := cache.Stats().Hits; hits != 7 {
		t.Errorf("%d hits", hits)
	}
}

// With any cache, the answers are those of a counter that is asked every time.
func TestAsCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	now := at()
	cache, err := denycache.New(storetest.Full(newStore(t)), denycache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, hourly(20), testEngine{Store: cache, Now: func() penstock.Instant { return now }})
	type window struct {
		key string
		at  penstock.Instant
	}
	counts := map[window]int64{}
	for i := range 20000 {
		now += penstock.Instant(random.Int64N(60_000_000))
		if random.IntN(2) == 0 {
			now -= now % 60_000_000 // many at once
		}
		key, cost := fmt.Sprintf("a%d", random.IntN(4)), random.Int64N(4)
		w := window{key, now / 3_600_000_000}
		counts[w] += cost
		if a := s.ask(t, cost, key); a.Allowed != (counts[w] <= 20) {
			t.Fatalf("step %d: %s with %d hits: allowed %v at %d of 20", i, key, cost, a.Allowed, counts[w])
		}
	}
	if hits := cache.Stats().Hits; hits < 1000 {
		t.Errorf("only %d answers were the cache's: the test is not worth much", hits)
	}
}

// While the store is unavailable, a node continues from its last known state, and charges the store later.
func TestOutage(t *testing.T) {
	for _, together := range []bool{false, true} {
		shared, now := newStore(t), at()
		clock := func() penstock.Instant { return now }
		store := &failing{Store: shared}
		s := newStand(t, hourly(10), testEngine{Store: store, Local: newStore(t), Together: together, Now: clock})
		other := newStand(t, hourly(10), testEngine{Store: shared, Together: together, Now: clock})
		s.ask(t, 1, "ax")       // so that this node knows it
		other.ask(t, 3, "ax")   // which this node does not know
		s.ask(t, 1, "ax", "ay") // and now it does: 5 are counted
		store.err = errNotTaken
		passed := 0
		for range 20 {
			if a := s.ask(t, 1, "ax"); a.Allowed {
				if passed++; a.Each[0].Verdict.Quality != penstock.QualityLocal {
					t.Errorf("together %v: %+v", together, a.Each[0].Verdict)
				}
			}
		}
		if passed != 5 {
			t.Errorf("together %v: %d passed during the outage, want the 5 that were left", together, passed)
		}
		store.err = nil
		for want := int64(8); want >= 0; want-- { // one of y was counted before
			if a := s.ask(t, 1, "ay"); a.Each[0].Verdict.Decision.Remaining != want {
				t.Fatalf("together %v: %d left of y, want %d", together, a.Each[0].Verdict.Decision.Remaining, want)
			}
		}
		if a := s.ask(t, 0, "ax"); a.Each[0].Verdict.Quality != penstock.QualityExact {
			t.Errorf("together %v: after the outage %+v", together, a.Each[0].Verdict)
		}
		if a := other.ask(t, 1, "ax"); a.Allowed {
			t.Errorf("together %v: the store was not charged with what passed: %+v", together, a.Each[0].Verdict.Decision)
		}
	}
}

// A request that cannot be counted is not answered.
func TestNothingCounts(t *testing.T) {
	s := newStand(t, hourly(10), testEngine{Store: &failing{err: errNotTaken}})
	_, err := s.Limit(t.Context(), one(entries("a", "x")))
	if !errors.Is(err, penstock.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if a := s.ask(t, 1, "cx"); !a.Allowed {
		t.Errorf("what no limit is for: %+v", a)
	}
}

package loadgen

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/memstore"
)

// limited returns a store in memory as a target, which wrongly allows every n-th denied request; 0: none.
func limited(t *testing.T, limit penstock.Limit, wrong int64) Target {
	t.Helper()
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	limiter, err := penstock.New(store, limit)
	if err != nil {
		t.Fatal(err)
	}
	var denied atomic.Int64
	return func(ctx context.Context, key string) (Answer, error) {
		d, err := limiter.Allow(ctx, key)
		if !d.Allowed && wrong > 0 && denied.Add(1)%wrong == 0 {
			d.Allowed = true
		}
		return Answer{Allowed: d.Allowed, Limit: &Limit{Algorithm: limit.Algorithm, Count: limit.Count, Window: limit.Window, Burst: limit.Burst}}, err
	}
}

// A limiter that allows too much is detected, and a correct one is not.
func TestOverAdmission(t *testing.T) {
	for _, algorithm := range []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket} {
		for _, wrong := range []int64{0, 20} {
			limit := penstock.Limit{Algorithm: algorithm, Count: 10, Window: 300 * 24 * time.Hour} // which does not end while the test runs
			r, err := Run(t.Context(), Options{Target: limited(t, limit, wrong), Workers: 8, Requests: 20_000, Keys: 20})
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests != 20_000 || r.Allowed+r.Denied != r.Requests || r.Over.Checked != r.Allowed {
				t.Errorf("%+v", r)
			}
			if r.Over.Limit == nil || (r.Over.Keys > 0) != (wrong > 0) {
				t.Errorf("%v, every %d-th admitted: %v", algorithm, wrong, &r.Over)
			}
			if wrong == 0 && r.Allowed != 200 {
				t.Errorf("%v: %d admitted of 10 for each of 20 keys", algorithm, r.Allowed)
			}
		}
	}
}

// A violation that a network delay may explain is not reported.
func TestDelaysAreNotViolations(t *testing.T) {
	l := &Limit{Algorithm: penstock.SlidingWindowLog, Count: 2, Window: time.Second}
	s := time.Second
	for name, test := range map[string]struct {
		all  []admission
		most int64
	}{
		"within a window":            {[]admission{{0, 0, s / 10}, {0, s / 2, s / 2}, {0, s * 9 / 10, s}}, 3},
		"one may have been later":    {[]admission{{0, 0, s / 10}, {0, s / 2, s / 2}, {0, s * 9 / 10, s + 1}}, 2},
		"of different keys":          {[]admission{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}, 1},
		"a window from the second":   {[]admission{{0, 0, 0}, {0, s, s}, {0, s + s/2, s + s/2}, {0, 2 * s, 2 * s}}, 3},
		"nothing":                    {nil, 0},
		"decided over a long answer": {[]admission{{0, 0, 2 * s}, {0, 0, 2 * s}, {0, 0, 2 * s}}, 0},
	} {
		if got := check(test.all, l, time.Now(), false); got.Most != test.most || (got.Keys > 0) != (test.most > 2) {
			t.Errorf("%s: %+v, want %d", name, got, test.most)
		}
	}
	// Aligned windows: near their ends the target's clock may be in the other one.
	l.Algorithm, l.Window = penstock.FixedWindow, time.Minute
	began := time.Unix(0, 0)
	all := []admission{{0, 30 * s, 30 * s}, {0, 31 * s, 31 * s}, {0, 60*s - skew/2, 60*s - skew/2}, {0, 65 * s, 65 * s}}
	if got := check(all, l, began, false); got.Most != 2 || got.Keys != 0 {
		t.Errorf("%+v", got)
	}
}

// Requests that were due while the target stalled count as late, though they were sent afterwards.
func TestNoCoordinatedOmission(t *testing.T) {
	var once sync.Once
	target := func(context.Context, string) (Answer, error) {
		once.Do(func() { time.Sleep(400 * time.Millisecond) })
		return Answer{Allowed: true}, nil
	}
	r, err := Run(t.Context(), Options{Target: target, Workers: 1, Rate: 1000, Requests: 400, Keys: 1})
	if err != nil {
		t.Fatal(err)
	}
	if median := r.Latency[0].Latency; r.Requests != 400 || median < 100*time.Millisecond {
		t.Errorf("%d requests, half of them within %v, though the target stalled for 400 ms of 400", r.Requests, median)
	}
}

func TestErrorsAndEnd(t *testing.T) {
	target := func(_ context.Context, key string) (Answer, error) { return Answer{}, errors.New("broken " + key) }
	r, err := Run(t.Context(), Options{Target: target, Workers: 2, Requests: 1000, Keys: 100, Zipf: 1.5})
	if err != nil || r.Failed != 1000 || len(r.Errors) > 2*maxErrors+1 || r.Errors[0].Error != "broken 0" {
		t.Errorf("%v %+v", err, r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	target = func(context.Context, string) (Answer, error) { cancel(); return Answer{}, context.Canceled }
	if r, err := Run(ctx, Options{Target: target, Workers: 2, Duration: time.Hour, Keys: 1}); err != nil || r.Failed != 0 {
		t.Errorf("interrupted: %v %+v", err, r)
	}
	if r.Over.Limit != nil || !strings.Contains(r.Over.String(), "not checked") {
		t.Errorf("%v", &r.Over)
	}
	_, err = Run(t.Context(), Options{Rate: -1, Zipf: 1})
	for _, want := range []string{"rate -1", "0 workers", "0 keys", "zipf exponent 1", "it would never end"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

package simulate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	_ "github.com/penstock-io/penstock/internal/fixedseed"
	"github.com/penstock-io/penstock/memstore"
)

func newStore() (Store, error) { return memstore.New(memstore.Options{}) }

func limit(a penstock.Algorithm, count int64, window time.Duration) penstock.Limit {
	return penstock.Limit{Algorithm: a, Count: count, Window: window}
}

func traffic(model string, rate float64, keys int, seed uint64) Traffic {
	return Traffic{Model: model, Rate: rate, Keys: keys, Zipf: 1.2, Shift: 3, Seed: seed}
}

// The exact log is never wrong, whatever the traffic and however many nodes share a store. No algorithm exceeds
// its bound: a fixed window allows at most twice its limit in any trailing window.
func TestExactLogIsNeverWrong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Int64Range(1, 30).Draw(t, "limit")
		window := time.Duration(rapid.IntRange(1, 60).Draw(t, "window")) * time.Second
		s := &Simulation{
			Traffic:  traffic(rapid.SampledFrom(Models).Draw(t, "traffic"), rapid.Float64Range(1, 50).Draw(t, "rate"), rapid.IntRange(1, 20).Draw(t, "keys"), rapid.Uint64().Draw(t, "seed")),
			Requests: 2000, Nodes: rapid.IntRange(1, 3).Draw(t, "nodes"), Sharing: Shared, NewStore: newStore,
			Limits: []penstock.Limit{limit(penstock.SlidingWindowLog, count, window), limit(penstock.FixedWindow, count, window), limit(penstock.SlidingWindowCounter, count, window)},
		}
		results, err := s.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Requests != 2000 || r.Admitted+r.Denied != r.Requests || r.Compared != r.Requests || r.Overshoot > count {
				t.Fatalf("%+v", r)
			}
			if i == 0 && (r.WronglyAllowed+r.WronglyDenied != 0 || r.Overshoot > 0 || r.Difference != 0) {
				t.Fatalf("the log is wrong: %+v", r)
			}
		}
	})
}

// The simulator shows the known properties of each algorithm, and the same results every time.
func TestAlgorithmsDiffer(t *testing.T) {
	s := &Simulation{
		Traffic: traffic(Bursty, 100, 50, 1), Requests: 20_000, Nodes: 1, Sharing: Shared, NewStore: newStore,
		Limits: []penstock.Limit{limit(penstock.FixedWindow, 50, 10*time.Second), limit(penstock.SlidingWindowCounter, 50, 10*time.Second), limit(penstock.TokenBucket, 50, 10*time.Second)},
	}
	first, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if fixed, counter := first[0], first[1]; fixed.Overshoot <= counter.Overshoot || fixed.WronglyAllowed == 0 || fixed.WronglyDenied != 0 || counter.Wrong() == 0 || first[2].Overshoot == 0 {
		t.Errorf("%+v", first)
	}
	again, err := s.Run(t.Context())
	if err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("the same seed gives something else: %v\n%+v\n%+v", err, first, again)
	}
}

func TestNodes(t *testing.T) {
	run := func(sharing Sharing, outage Outage) Result {
		t.Helper()
		s := &Simulation{
			Traffic: traffic(Poisson, 200, 5, 1), Requests: 20_000, Nodes: 4, Sharing: sharing, Outage: outage, NewStore: newStore,
			Limits: []penstock.Limit{limit(penstock.FixedWindow, 100, 10*time.Second)},
		}
		results, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return results[0]
	}
	shared, leased, apart := run(Shared, Outage{}), run(Leased, Outage{}), run(Apart, Outage{})
	if shared.Overshoot > 100 || leased.Overshoot > 100 || leased.Admitted > shared.Admitted || apart.Overshoot < 200 || apart.Admitted < 3*shared.Admitted/2 {
		t.Errorf("shared %+v\nleased %+v\napart %+v", shared, leased, apart)
	}
	allow, deny := run(Shared, Outage{20 * time.Second, 30 * time.Second, "allow"}), run(Shared, Outage{20 * time.Second, 30 * time.Second, "deny"})
	if local := run(Shared, Outage{20 * time.Second, 30 * time.Second, "local"}); !(deny.Admitted < local.Admitted && local.Admitted < allow.Admitted && deny.Admitted < shared.Admitted) {
		t.Errorf("admitted during an outage: deny %d, local %d, allow %d; without %d", deny.Admitted, local.Admitted, allow.Admitted, shared.Admitted)
	}
}

// The traces on which algorithms are known to differ.
func TestTraces(t *testing.T) {
	for name, want := range map[string][]int{"overlap": {0, 2, 1, 0}, "boundary": {0, 5, 5, 5}, "race": {0, 0, 0, 0}} {
		r, err := RunTrace(t.Context(), name, newStore)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, l := range r.Lanes {
			got = append(got, l.Rejected)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: rejected %v, want %v", name, got, want)
		}
		if name == "race" && (!slices.Equal(r.Naive, []int64{7, 7}) || r.Lanes[0].Used[6] != 7 || r.Lanes[0].Used[7] != 8) {
			t.Errorf("race: %+v", r)
		}
	}
	if _, err := RunTrace(t.Context(), "none", newStore); err == nil || !strings.Contains(err.Error(), `unknown trace "none"; known are [overlap boundary race]`) {
		t.Error(err)
	}
}

// Streams have the configured rate, are ordered by time, and are the same every time.
func TestStreams(t *testing.T) {
	for _, model := range Models {
		tr := traffic(model, 100, 50, 7)
		s, again := tr.stream(), tr.stream()
		var last request
		n, attacks := 0, 0
		for n < 200_000 {
			q := s.next()
			if q.at < last.at || q != again.next() {
				t.Fatalf("%s: %+v after %+v", model, q, last)
			}
			if q.key == tr.Keys {
				attacks++
			}
			last = q
			n++
		}
		rate := float64(n-attacks) / (float64(last.at) / 1e6)
		if want := 100.0; model != Diurnal && (rate < want*0.85 || rate > want*1.15) || model == Diurnal && (rate < 100 || rate > 150) { // from midnight on it rises
			t.Errorf("%s: %v requests a second", model, rate)
		}
		if share := float64(attacks) / float64(n); model == Attack && (share < 0.28 || share > 0.38) || model != Attack && attacks > 0 {
			t.Errorf("%s: %v of requests are the attacker's", model, share)
		}
	}
	tr := traffic(Retries, 1, 1, 1)
	s := tr.stream()
	s.denied(request{at: 5})
	seen := false
	for range 10 {
		q := s.next()
		seen = seen || q == request{at: 1_000_005, tries: 1}
	}
	if !seen {
		t.Error("nobody tried again")
	}
}

// An interrupted study resumes where it stopped, with the same result as an uninterrupted one.
func TestStudyResumes(t *testing.T) {
	study := func(state string) *Study {
		s := DefaultStudy()
		s.Traffic.Rate, s.Traffic.Keys, s.Limit.Window, s.Limit.Count = 500, 2000, 10*time.Second, 8
		s.Requests, s.Slice, s.State, s.Workers, s.NewStore = 100_000, 15_000, state, 2, newStore
		return &s
	}
	whole, err := study("").Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if whole.Admitted.Compared != 100_000 || whole.Admitted.Wrong() == 0 || whole.Admitted.Wrong() > 0.2 || whole.All == whole.Admitted {
		t.Errorf("%+v", whole)
	}
	state := filepath.Join(t.TempDir(), "study.json")
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := study(state)
	interrupted.Workers = 1
	interrupted.Progress = func(done int64) {
		if done >= 30_000 {
			cancel()
		}
	}
	if _, err := interrupted.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted: %v", err)
	}
	resumed, err := study(state).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resumed.Admitted != whole.Admitted || resumed.All != whole.All || resumed.Resumed < 30_000 || resumed.Resumed > 90_000 {
		t.Errorf("resumed after %d:\n%+v\n%+v", resumed.Resumed, resumed, whole)
	}
	other := study(state)
	other.Traffic.Seed++
	if _, err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is the state of another study") {
		t.Error(err)
	}
	if err := os.WriteFile(state, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := study(state).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "is not the state of a study") {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	s := &Simulation{Traffic: Traffic{Model: "flood", Rate: -1, Zipf: 0.5}, Limits: []penstock.Limit{{Algorithm: penstock.Concurrency, Count: 1, Window: time.Minute}}}
	_, err := s.Run(t.Context())
	for _, want := range []string{`unknown traffic "flood"; known are [poisson bursty diurnal attack retries]`, "rate -1 is not above 0", "0 keys", "zipf exponent 0.5", "0 requests", "0 nodes", "only limits over a window"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

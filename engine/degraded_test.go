package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"pgregory.net/rapid"
)

// A wavering store answers, or does not: with and without having charged first.
type wavering struct {
	*memstore.Store
	down, charges atomic.Bool
}

func (s *wavering) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if !s.down.Load() {
		return s.Store.Take(ctx, t, out)
	}
	if s.charges.Load() { // the reply is lost
		var lost penstock.Outcome
		_ = s.Store.Take(ctx, t, &lost)
	}
	return fmt.Errorf("%w: for the test", penstock.ErrUnavailable)
}

// TakeEach must not be the one of the store within.
func (s *wavering) TakeEach(ctx context.Context, turns []penstock.Turn) {
	for i := range turns {
		turns[i].Err = s.Take(ctx, &turns[i].Ticket, &turns[i].Outcome)
	}
}

// A plainly kept count of what one node has let pass, in an instant in which nothing is given back.
type ownCount struct{ level, share int64 }

func (c *ownCount) passes(cost int64) bool { return c.level+cost <= c.share }
func (c *ownCount) add(cost int64)         { c.level = min(c.share, c.level+cost) }

// A fleet is nodes that share a store which comes and goes, and what they are expected to decide.
type fleet struct {
	store   *wavering
	engines []*engine.Engine
	counts  []ownCount

	exact, local int64 // let pass
}

func newFleet(t testing.TB, n int, text string, share int64, local func() penstock.Store) *fleet {
	f := &fleet{store: &wavering{Store: newMemory(t)}}
	snapshot := engine.Fixed(compile(t, text))
	for range n {
		f.engines = append(f.engines, newEngine(t, text, engine.Options{
			Store: f.store, Local: local(), Rules: snapshot, Nodes: func() int { return n }, Now: func() penstock.Instant { return beginning },
		}))
		f.counts = append(f.counts, ownCount{share: share})
	}
	return f
}

// call decides one call at a node and says what is wrong with the verdict.
func (f *fleet) call(t context.Context, node int, cost int64) (complaint string) {
	var v penstock.Verdict
	err := f.engines[node].Decide(t, &penstock.Call{Cost: cost}, &v)
	own := &f.counts[node]
	if f.store.down.Load() {
		if want := own.passes(cost); v.Allowed != want || v.Quality != penstock.QualityLocal || err == nil {
			return fmt.Sprintf("without the store, %d of %d used here, cost %d: %s", own.level, own.share, cost, render(&v, err))
		}
		if v.Allowed {
			own.add(cost)
			f.local += cost
		}
		return ""
	}
	if v.Quality != penstock.QualityExact || err != nil {
		return "with the store: " + render(&v, err)
	}
	if v.Allowed {
		own.add(cost)
		f.exact += cost
	}
	return ""
}

// A node that loses the store goes on from what it has let pass itself: it denies nobody within the
// limit that it enforces, and lets nobody pass beyond.
func TestGoesOnFromItsOwnCount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		if complaint := runFleet(t, rt); complaint != "" {
			rt.Fatal(complaint)
		}
	})
}

func newLocal(t testing.TB) func() penstock.Store {
	return func() penstock.Store { return newMemory(t) }
}

func runFleet(t *testing.T, rt *rapid.T) (complaint string) {
	n, limit := rapid.IntRange(1, 4).Draw(rt, "nodes"), rapid.Int64Range(1, 20).Draw(rt, "limit")
	algorithm := rapid.SampledFrom([]string{"fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket"}).Draw(rt, "algorithm")
	policy, share := "local", limit
	if rapid.Bool().Draw(rt, "divided") {
		policy, share = "{local: divided}", (limit+int64(n)-1)/int64(n)
	}
	f := newFleet(t, n, fmt.Sprintf(`rules: [{name: all, key: [], on_store_error: %s, limits: [{rate: %d/1h, algorithm: %s}]}]`, policy, limit, algorithm), share, newLocal(t))
	for range rapid.IntRange(1, 120).Draw(rt, "calls") {
		if rapid.IntRange(0, 9).Draw(rt, "turns") == 0 {
			f.store.down.Store(!f.store.down.Load())
			f.store.charges.Store(rapid.Bool().Draw(rt, "loses replies"))
		}
		if complaint := f.call(t.Context(), rapid.IntRange(0, n-1).Draw(rt, "node"), rapid.Int64Range(0, 3).Draw(rt, "cost")); complaint != "" {
			return complaint
		}
	}
	if f.exact > limit || f.local > int64(n)*share {
		return fmt.Sprintf("of a limit of %d the store let %d pass, and %d nodes with a share of %d let %d", limit, f.exact, n, share, f.local)
	}
	return ""
}

// A ban that the store has told of holds while the store is away, also under a rule that then lets
// everybody else pass.
func TestKnownBansHold(t *testing.T) {
	for _, policy := range []string{"local", "{local: divided}", "allow"} {
		f := newFleet(t, 1, fmt.Sprintf(`rules: [{name: all, key: [user], on_store_error: %s, limits: [{rate: 1/1h, algorithm: fixed_window}], penalty: {after: 1, within: 1h, bans: [30m]}}]`, policy), 1, newLocal(t))
		decide := func(user string) string {
			var v penstock.Verdict
			err := f.engines[0].Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: user}}}, &v)
			return fmt.Sprintf("%v %s %s %v", v.Allowed, v.Reason, v.Quality, err != nil)
		}
		decide("bad")
		decide("bad")
		if got := decide("bad"); got != "false banned exact false" {
			t.Fatalf("%s: with the store: %s", policy, got)
		}
		f.store.down.Store(true)
		if got := decide("bad"); got != "false banned local true" {
			t.Errorf("%s: without the store: %s", policy, got)
		}
		want := "true ok local true"
		if policy == "allow" {
			want = "true store_error open true"
		}
		if got := decide("good"); got != want {
			t.Errorf("%s: somebody else, without the store: %s, want %s", policy, got, want)
		}
	}
}

// asleep is a local store that learns nothing while the shared one answers.
type asleep struct {
	penstock.Store
	shared *wavering
}

func (s *asleep) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if !s.shared.down.Load() {
		return fmt.Errorf("%w: asleep", penstock.ErrUnavailable)
	}
	return s.Store.Take(ctx, t, out)
}

// The property would notice a node that begins with nothing when the store goes away, and a fleet
// whose nodes do not know how many they are.
func TestGoesOnFromItsOwnCountNotices(t *testing.T) {
	ctx := t.Context()
	text := `rules: [{name: all, key: [], on_store_error: {local: divided}, limits: [{rate: 10/1h, algorithm: fixed_window}]}]`
	trial := func(f *fleet) (complaint string) {
		for i := range 12 {
			f.store.down.Store(i >= 4)
			if c := f.call(ctx, 0, 1); c != "" && complaint == "" {
				complaint = c
			}
		}
		return complaint
	}
	if complaint := trial(newFleet(t, 2, text, 5, newLocal(t))); complaint != "" {
		t.Error("a sound fleet: ", complaint)
	}
	naps := &asleep{Store: newMemory(t)}
	sleepy := newFleet(t, 2, text, 5, func() penstock.Store { return naps })
	naps.shared = sleepy.store
	if trial(sleepy) == "" {
		t.Error("a local store that learns nothing was not noticed")
	}
	if trial(newFleet(t, 1, text, 5, newLocal(t))) == "" {
		t.Error("a node that does not divide was not noticed")
	}
}

// With all traffic at one node, nobody within the limit is denied, whatever the store does.
func TestNobodyWithinTheLimitIsDenied(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "token_bucket", "sliding_window_log"} {
		f := newFleet(t, 1, fmt.Sprintf(`rules: [{name: all, key: [], limits: [{rate: 100/1h, algorithm: %s}]}]`, algorithm), 100, newLocal(t))
		for i := range 100 {
			f.store.down.Store(i/7%2 == 1)
			f.store.charges.Store(i/14%2 == 1)
			if complaint := f.call(t.Context(), 0, 1); complaint != "" {
				t.Fatalf("%s: call %d: %s", algorithm, i, complaint)
			}
		}
		if f.exact+f.local != 100 {
			t.Errorf("%s: %d of 100 passed", algorithm, f.exact+f.local)
		}
	}
}

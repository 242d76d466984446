package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

// A waveringStore answers, or fails with or without having charged first.
type waveringStore struct {
	*memstore.Store
	down, charges atomic.Bool
}

func (s *waveringStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if !s.down.Load() {
		return s.Store.Take(ctx, t, out)
	}
	if s.charges.Load() { // the reply is lost
		var lost storage.Outcome
		_ = s.Store.Take(ctx, t, &lost)
	}
	return fmt.Errorf("%w: for the test", penstock.ErrUnavailable)
}

// TakeEach overrides that of the embedded store.
func (s *waveringStore) TakeEach(ctx context.Context, turns []storage.BatchItem) {
	for i := range turns {
		turns[i].Err = s.Take(ctx, &turns[i].Ticket, &turns[i].Outcome)
	}
}

// A nodeModel is what one node is expected to know, at an instant at which nothing is given back.
type nodeModel struct{ level, share int64 }

// A fleet is nodes that share an unreliable store, and what they are expected to decide.
type fleet struct {
	store   *waveringStore
	engines []*engine.Engine
	now     penstock.Instant

	limit, nodes int64
	isLog        bool
	models       []nodeModel
	used         int64 // of the limit, in the shared store
	exact, local int64 // admitted
}

func newFleet(t testing.TB, n int, text string, limit, share int64, local func() penstock.Store) *fleet {
	f := &fleet{store: &waveringStore{Store: newMemory(t)}, now: beginning, limit: limit, nodes: int64(n), isLog: strings.Contains(text, "log")}
	snapshot := engine.Fixed(compile(t, text))
	for range n {
		f.engines = append(f.engines, newEngine(t, text, engine.Options{
			Store: f.store, Local: local(), Rules: snapshot, Nodes: func() int { return n }, Now: func() penstock.Instant { return f.now },
		}))
		f.models = append(f.models, nodeModel{share: share})
	}
	return f
}

// pass moves time until every counter is empty again.
func (f *fleet) pass() {
	f.now += penstock.Instant(2 * time.Hour / time.Microsecond)
	f.used, f.exact, f.local = 0, 0, 0
	for i := range f.models {
		f.models[i].level = 0
	}
}

// call decides one request at a node and returns what is wrong with the verdict.
func (f *fleet) call(ctx context.Context, node int, cost int64) (complaint string) {
	var v penstock.Verdict
	err := f.engines[node].Decide(ctx, &penstock.Call{Cost: cost}, &v)
	m, passes := &f.models[node], f.used+cost <= f.limit
	if f.store.down.Load() {
		if f.store.charges.Load() && passes {
			f.used += cost
		}
		if want := m.level+cost <= m.share; v.Allowed != want || v.Quality != penstock.QualityLocal || err == nil {
			return fmt.Sprintf("store unavailable, %d of %d used here, cost %d: %s", m.level, m.share, cost, render(&v, err))
		}
		if v.Allowed {
			m.level += cost
			f.local += cost
		}
		return ""
	}
	if v.Allowed != passes || v.Quality != penstock.QualityExact || err != nil {
		return fmt.Sprintf("store available, %d of %d used, cost %d: %s", f.used, f.limit, cost, render(&v, err))
	}
	if v.Allowed {
		f.used += cost
		f.exact += cost
	}
	m.learn(f, cost, v.Allowed)
	return ""
}

// learn replaces what is known with the shared counter. For a log, the node knows what it admitted itself, and
// that a cost that was denied will be denied again.
func (m *nodeModel) learn(f *fleet, cost int64, allowed bool) {
	switch {
	case f.isLog && allowed:
		m.level = min(m.share, m.level+cost)
	case f.isLog:
		m.level = max(m.level, m.share-cost+1)
	case m.share == f.limit:
		m.level = f.used
	default:
		m.level = m.share - (f.limit-f.used+f.nodes-1)/f.nodes
	}
}

// A node whose store becomes unavailable continues from the store's last answer: it denies only what that
// proves, and admits no more than was left.
func TestContinuesFromTheSharedState(t *testing.T) {
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
	algorithm := rapid.SampledFrom([]string{"fixed_window", "sliding_window_counter", "sliding_window_log", "token_bucket", "token_bucket, refill: interval"}).Draw(rt, "algorithm")
	policy, share := "local", limit
	if rapid.Bool().Draw(rt, "divided") {
		policy, share = "{local: divided}", (limit+int64(n)-1)/int64(n)
	}
	f := newFleet(t, n, fmt.Sprintf(`rules: [{name: all, key: [], on_store_error: %s, limits: [{rate: %d/1h, algorithm: %s}]}]`, policy, limit, algorithm), limit, share, newLocal(t))
	for range rapid.IntRange(1, 120).Draw(rt, "calls") {
		switch rapid.IntRange(0, 19).Draw(rt, "turns") {
		case 0, 1:
			f.store.down.Store(!f.store.down.Load())
			f.store.charges.Store(rapid.Bool().Draw(rt, "loses replies"))
		case 2:
			f.pass()
		}
		if complaint := f.call(t.Context(), rapid.IntRange(0, n-1).Draw(rt, "node"), rapid.Int64Range(0, 3).Draw(rt, "cost")); complaint != "" {
			return complaint
		}
		if f.exact > limit {
			return fmt.Sprintf("the store admitted %d with a limit of %d", f.exact, limit)
		}
	}
	return ""
}

// A ban that the store has reported holds while the store is unavailable, even under a rule that then allows
// all other clients.
func TestKnownBansHold(t *testing.T) {
	for _, policy := range []string{"local", "{local: divided}", "allow"} {
		f := newFleet(t, 1, fmt.Sprintf(`rules: [{name: all, key: [user], on_store_error: %s, limits: [{rate: 1/1h, algorithm: fixed_window}], penalty: {after: 1, within: 1h, bans: [30m]}}]`, policy), 1, 1, newLocal(t))
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

// A misledStore learns something else than the shared store has answered.
type misledStore struct {
	*memstore.Store
	mislead func(*storage.StateReport) *storage.StateReport // nil: nothing
}

func (s *misledStore) Adopt(k *storage.StateReport) {
	if k = s.mislead(k); k != nil {
		s.Store.Adopt(k)
	}
}

// The property would catch a node that begins with nothing, one that adds what it learns to what it knows,
// one that learns from admitted requests only, and one that does not divide.
func TestContinuesFromTheSharedStateNotices(t *testing.T) {
	text := func(algorithm string) string {
		return `rules: [{name: all, key: [], on_store_error: {local: divided}, limits: [{rate: 10/1h, algorithm: ` + algorithm + `}]}]`
	}
	trial := func(f *fleet, algorithm string) (complaint string) {
		f.isLog = strings.Contains(algorithm, "log")
		call := func(node int, cost int64) {
			if c := f.call(t.Context(), node%len(f.engines), cost); c != "" && complaint == "" {
				complaint = c
			}
		}
		for exact := range 9 {
			f.pass()
			f.store.down.Store(false)
			for i := range exact {
				call(i/6, 1+int64(i%2))
			}
			f.store.down.Store(true)
			for i := range 12 {
				call(i, 1)
			}
		}
		return complaint
	}
	for _, algorithm := range []string{"fixed_window", "sliding_window_log", "token_bucket", "sliding_window_counter"} {
		if complaint := trial(newFleet(t, 2, text(algorithm), 10, 5, newLocal(t)), algorithm); complaint != "" {
			t.Errorf("%s: a sound fleet: %s", algorithm, complaint)
		}
		for name, mislead := range map[string]func(last, k *storage.StateReport) *storage.StateReport{
			"learns nothing": func(_, _ *storage.StateReport) *storage.StateReport { return nil },
			"never learns of usage": func(_, k *storage.StateReport) *storage.StateReport {
				k.State.Used, k.State.Previous, k.State.FreeAt = 0, 0, 0
				return k
			},
			"adds instead of replacing": func(last, k *storage.StateReport) *storage.StateReport {
				k.State.Used += last.State.Used
				return k
			},
		} {
			misleading := newFleet(t, 2, text(algorithm), 10, 5, func() penstock.Store {
				var last storage.StateReport
				return &misledStore{newMemory(t), func(k *storage.StateReport) *storage.StateReport {
					told := *k
					k = mislead(&last, &told)
					last = told
					return k
				}}
			})
			if strings.HasPrefix(name, "adds") && algorithm == "sliding_window_log" {
				continue // whose state is not a level
			}
			if trial(misleading, algorithm) == "" {
				t.Errorf("%s: a local store that %s was not noticed", algorithm, name)
			}
		}
		if trial(newFleet(t, 1, text(algorithm), 10, 5, newLocal(t)), algorithm) == "" {
			t.Errorf("%s: a node that does not divide was not noticed", algorithm)
		}
	}
}

// With all traffic at one node, no client within the limit is denied, whatever the store does.
func TestNobodyWithinTheLimitIsDenied(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "token_bucket", "sliding_window_log"} {
		f := newFleet(t, 1, fmt.Sprintf(`rules: [{name: all, key: [], limits: [{rate: 100/1h, algorithm: %s}]}]`, algorithm), 100, 100, newLocal(t))
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

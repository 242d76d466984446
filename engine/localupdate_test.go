package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

const echoed = `
rules:
  - {name: bans, match: {path: /bans}, key: [user], limits: [{rate: 1/1m, algorithm: fixed_window}], penalty: {after: 2, within: 1m, bans: [1h], forgive_after: 1d}}
  - {name: reserves, match: {path: /reserves}, key: [user], reserve: {ttl: 60s}, limits: [{rate: 10/1h, algorithm: fixed_window}]}
  - {name: places, match: {path: /places}, key: [user], limits: [{concurrent: 2, ttl: 30s}, {rate: 10/1h, algorithm: fixed_window}]}
  - {name: two, match: {path: /two}, on_store_error: {local: divided}, key: [user], limits: [{rate: 2/1m, algorithm: fixed_window}, {rate: 20/1h, algorithm: fixed_window}]}
  - {name: counts, match: {path: /counts}, key: [user], limits: [{rate: 2/1h, algorithm: fixed_window}], count_denied: true}
  - {name: ids, match: {path: /ids}, key: [user], dedup: {ttl: 10s}, limits: [{rate: 9/1h, algorithm: fixed_window}]}
  - {name: passes, match: {path: /passes}, on_store_error: allow, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}
`

// newNode returns an engine, and its store, which can be made unavailable.
func newNode(t *testing.T) (*engine.Engine, *waveringStore) {
	t.Helper()
	store := &waveringStore{Store: newMemory(t)}
	return newEngine(t, echoed, engine.Options{
		Store: store, Local: newMemory(t), Nodes: func() int { return 2 }, Now: func() penstock.Instant { return beginning },
	}), store
}

func TestEcho(t *testing.T) {
	decide := func(e *engine.Engine, path, id string, cost int64, reserve bool) (penstock.Verdict, string) {
		var v penstock.Verdict
		err := e.Decide(t.Context(), &penstock.Call{Cost: cost, ID: id, Reserve: reserve, Attributes: attributes("path", path, "user", "u1")}, &v)
		return v, render(&v, err)
	}
	for _, test := range []struct {
		name   string
		before func(t *testing.T, e *engine.Engine) // the store becomes unavailable
		path   string
		want   string // of a peek then
	}{
		{"a ban that the store has told of holds", func(t *testing.T, e *engine.Engine) {
			for range 3 {
				decide(e, "/bans", "", 1, false)
			}
		}, "/bans", "deny banned local bans 1/1 wait=1h0m0s banned=1h0m0s error=unavailable"},
		{"denied requests are known where they count", func(t *testing.T, e *engine.Engine) {
			for _, cost := range []int64{0, 1, 2, 2} { // the last two are denied
				decide(e, "/counts", "", cost, false)
			}
		}, "/counts", "deny over_limit local counts 3/2 wait=1h0m0s error=unavailable"},
		{"a reservation counts with what it came to", func(t *testing.T, e *engine.Engine) {
			v, _ := decide(e, "/reserves", "", 8, true)
			id := v.Reservation
			for range 2 { // the second time changes nothing
				if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: id, Verb: penstock.Settle, Cost: 3}, &v); err != nil {
					t.Error(err)
				}
			}
			v, _ = decide(e, "/reserves", "", 5, true)
			if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Release, Cost: 4}, &v); err != nil {
				t.Error(err)
			}
		}, "/reserves", "allow ok local reserves 3/10 error=unavailable"},
		{"places are not counted, what else the rule has is", func(t *testing.T, e *engine.Engine) {
			decide(e, "/places", "", 1, false)
			decide(e, "/places", "", 1, false)
		}, "/places", "allow ok local places 0/2 error=unavailable { places:concurrent 0/2 places:1h 2/10 }"},
		{"of each limit a share of what is left is known", func(t *testing.T, e *engine.Engine) {
			decide(e, "/two", "", 1, false)
			decide(e, "/two", "", 1, false)
		}, "/two", "allow ok local two 1/1 error=unavailable { two:1m 1/1 two:1h 1/10 }"},
		{"a repeat is counted once", func(t *testing.T, e *engine.Engine) {
			decide(e, "/ids", "x", 1, false)
			decide(e, "/ids", "x", 1, false)
		}, "/ids", "allow ok local ids 1/9 error=unavailable"},
		{"a rule that lets pass is not counted", func(t *testing.T, e *engine.Engine) {
			decide(e, "/passes", "", 1, false)
		}, "/passes", "allow store_error open error=unavailable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, store := newNode(t)
			test.before(t, e)
			store.down.Store(true)
			if _, got := decide(e, test.path, "", 0, false); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// The local store does not affect verdicts while the shared one answers, even if it is full or fails.
func TestEchoHasNoSay(t *testing.T) {
	now := func() penstock.Instant { return beginning }
	alone := newEngine(t, echoed, engine.Options{Now: now})
	for name, local := range map[string]penstock.Store{"memory": newMemory(t), "panics": panics{}} {
		alone := alone
		if name == "panics" {
			alone = newEngine(t, echoed, engine.Options{Now: now})
		}
		e := newEngine(t, echoed, engine.Options{Local: local, Nodes: func() int { return 1000 }, Now: now})
		for i := range 60 {
			c := penstock.Call{Cost: int64(i % 3), Attributes: attributes("path", []string{"/bans", "/two", "/counts", "/passes", "/ids"}[i%5], "user", "u1")}
			var want, got penstock.Verdict
			_, _ = alone.Decide(t.Context(), &c, &want), e.Decide(t.Context(), &c, &got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: call %d (-without +with):\n%s", name, i, diff)
			}
		}
	}
}

// What was reserved in the local store is settled there and nowhere else.
func TestReservedWithoutTheStore(t *testing.T) {
	e, store := newNode(t)
	store.down.Store(true)
	c := penstock.Call{Cost: 8, Reserve: true, Attributes: attributes("path", "/reserves", "user", "u1")}
	var v penstock.Verdict
	_ = e.Decide(t.Context(), &c, &v)
	if err := e.Conclude(t.Context(), &penstock.Conclusion{Reservation: v.Reservation, Verb: penstock.Settle, Cost: 3}, &v); err != nil {
		t.Fatal(err)
	}
	c.Cost, c.Reserve = 0, false
	err := e.Decide(t.Context(), &c, &v)
	if got, want := render(&v, err), "allow ok local reserves 3/10 error=unavailable"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The number of nodes is read when it matters.
func TestNodesComeAndGo(t *testing.T) {
	for _, limit := range []string{"{rate: 10/1s, burst: 21, algorithm: token_bucket}", "{rate: 10/1s, queue: 20, algorithm: leaky_bucket}", "{rate: 21/1h, algorithm: fixed_window}"} {
		nodes := 1
		store := &waveringStore{Store: newMemory(t)}
		store.down.Store(true)
		e := newEngine(t, `rules: [{name: all, key: [], on_store_error: {local: divided}, limits: [`+limit+`]}]`,
			engine.Options{Store: store, Local: newMemory(t), Nodes: func() int { return nodes }})
		for _, test := range []struct {
			nodes int
			want  int64
		}{{1, 21}, {2, 11}, {4, 6}, {100, 1}, {0, 21}, {-3, 21}} {
			nodes = test.nodes
			var v penstock.Verdict
			_ = e.Decide(t.Context(), &penstock.Call{}, &v)
			if v.Decision.Limit != test.want {
				t.Errorf("%s: with %d nodes the share of 21 is %d, not %d", limit, test.nodes, v.Decision.Limit, test.want)
			}
		}
	}
}

// Updating the local store does not allocate.
func TestEchoAllocatesNothing(t *testing.T) {
	if racetest.Enabled {
		t.Skip("with the race detector pools forget at random")
	}
	for _, test := range allocationCases {
		e := newEngine(t, test.rules, engine.Options{Local: newMemory(t)})
		c := penstock.Call{Cost: 2, Attributes: attributes("ip", "192.0.2.1", "path", "/search", "user", "u1", "quota", "1000000")}
		var v penstock.Verdict
		decide := func() { _ = e.Decide(t.Context(), &c, &v) }
		decide()
		if got := testing.AllocsPerRun(100, decide); got != 0 {
			t.Errorf("%s: %v allocations", test.name, got)
		}
	}
}

// A ban that was lifted does not come back when the store becomes unavailable: the node has learned since
// that there is none.
func TestLiftedBanStaysLifted(t *testing.T) {
	snapshot := compile(t, echoed)
	store := &waveringStore{Store: newMemory(t)}
	e := newEngine(t, "", engine.Options{Store: store, Local: newMemory(t), Rules: engine.Fixed(snapshot), Now: func() penstock.Instant { return beginning }})
	decide := func(cost int64) string {
		var v penstock.Verdict
		err := e.Decide(t.Context(), &penstock.Call{Cost: cost, Attributes: attributes("path", "/bans", "user", "u1")}, &v)
		return render(&v, err)
	}
	for range 3 {
		decide(1)
	}
	lift := func(length time.Duration) {
		t.Helper()
		bans := snapshot.Rules[0]
		if _, err := store.Ban(t.Context(), &storage.Ban{Now: beginning, Subject: bans.Subjects.Subject("u1"), Penalty: bans.Penalty, Length: length}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		length time.Duration
		heard  bool
		want   string
	}{
		{0, false, "deny banned local bans 1/1 wait=1h0m0s banned=1h0m0s error=unavailable"},
		{0, true, "allow ok local bans 1/1 error=unavailable"},
		{2 * time.Hour, false, "allow ok local bans 1/1 error=unavailable"},
		{2 * time.Hour, true, "deny banned local bans 1/1 wait=2h0m0s banned=2h0m0s error=unavailable"},
	} {
		store.down.Store(false)
		if lift(test.length); test.heard {
			decide(0)
		}
		store.down.Store(true)
		if got := decide(0); got != test.want {
			t.Errorf("ban of %v, heard of %v:\ngot  %s\nwant %s", test.length, test.heard, got, test.want)
		}
	}
}

// Requests that are decided together update the local store like single ones.
func TestEchoOfRequestsTogether(t *testing.T) {
	e, store := newNode(t)
	calls := make([]penstock.Call, 3)
	for i := range calls {
		calls[i] = penstock.Call{Cost: 3, Attributes: attributes("path", "/ids", "user", "u1")}
	}
	verdicts, errs := make([]penstock.Verdict, 3), make([]error, 3)
	e.DecideTogether(t.Context(), calls, verdicts, errs)
	store.down.Store(true)
	var v penstock.Verdict
	err := e.Decide(t.Context(), &penstock.Call{Cost: 1, Attributes: attributes("path", "/ids", "user", "u1")}, &v)
	if got, want := render(&v, err), "deny over_limit local ids 9/9 wait=1h0m0s error=unavailable"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

func scenarioWithout(t *testing.T, name string) []txtar.File {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/without/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return archive.Files
}

// panics is a store that always panics.
type panics struct{}

func (panics) Take(context.Context, *storage.Ticket, *storage.Outcome) error { panic("take") }

func (panics) Settle(context.Context, *storage.Settlement, *storage.SettleOutcome) error {
	panic("settle")
}

func (panics) TakeEach(context.Context, []storage.BatchItem) { panic("take each") }

// stopped returns a store whose server has stopped.
func stopped(t *testing.T) *redisstore.Store {
	t.Helper()
	server := redistest.Start(t)
	s, err := redisstore.Open(redisstore.Options{Addresses: []string{server.Addr}, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWithoutTheStore(t *testing.T) {
	for name, store := range map[string]penstock.Store{"stopped": stopped(t), "panics": panics{}} {
		t.Run(name, func(t *testing.T) {
			for _, diff := range run(t, scenarioWithout(t, "local"), engine.Options{Store: store, Local: newMemory(t)}) {
				t.Error(diff)
			}
			for _, diff := range run(t, scenarioWithout(t, "nothing"), engine.Options{Store: store}) {
				t.Error(diff)
			}
			// A local store that does not answer either counts as none.
			for _, diff := range run(t, scenarioWithout(t, "nothing"), engine.Options{Store: store, Local: panics{}}) {
				t.Error(diff)
			}
		})
	}
}

// The scenario would catch a store that answers, and a local one that is not asked.
func TestWithoutTheStoreNotices(t *testing.T) {
	for name, o := range map[string]engine.Options{
		"answers":  {Store: newMemory(t), Local: newMemory(t)},
		"no local": {Store: panics{}},
	} {
		if len(run(t, scenarioWithout(t, "local"), o)) == 0 {
			t.Errorf("%s: not noticed", name)
		}
	}
	if len(run(t, scenarioWithout(t, "nothing"), engine.Options{Store: panics{}, Local: newMemory(t)})) == 0 {
		t.Error("a local store that is asked was not noticed")
	}
}

// A request whose deadline has passed is still answered, by the local store.
func TestWithoutTime(t *testing.T) {
	e := newEngine(t, `rules: [{name: all, key: [], limits: [{rate: 1/1h, algorithm: token_bucket}]}]`, engine.Options{Local: newMemory(t)})
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for i, want := range []string{"allow ok local all 1/1 error=unavailable", "deny over_limit local all 1/1 wait=1h0m0s error=unavailable"} {
		var v penstock.Verdict
		err := e.Decide(ctx, &penstock.Call{Cost: 1}, &v)
		if v.Decision.RetryAfter > 0 {
			v.Decision.RetryAfter = time.Hour // a real clock runs
		}
		if got := render(&v, err); got != want {
			t.Errorf("call %d: %s, not %s", i, got, want)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("call %d: the error does not say why: %v", i, err)
		}
	}
}

// A request that its caller has cancelled is denied, whatever the failure policy says: it says nothing about the store.
// It is counted as that, and no observer sees it.
func TestCancelled(t *testing.T) {
	var seen recordingObserver
	e := newEngine(t, `
attributes: {user: {header: X-User}}
rules:
  - {name: all, key: [], on_store_error: allow, limits: [10/1h]}
  - {name: per-user, key: [user], limits: [10/1h]}
`, engine.Options{Local: newMemory(t), Observe: seen.observe})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := []penstock.Call{{Cost: 1}, {Cost: 1, Attributes: attributes("user", "ann")}}
	parts := []engine.Part{{Call: calls[0], Rule: compile(t, `rules: [{name: all, key: [], on_store_error: allow, limits: [10/1h]}]`).Rules[0], Verdict: new(penstock.Verdict)}}
	verdicts, errs := make([]penstock.Verdict, 2), make([]error, 2)
	for name, decide := range map[string]func(){
		"one": func() {
			for i := range calls {
				errs[i] = e.Decide(ctx, &calls[i], &verdicts[i])
			}
		},
		"each":     func() { e.DecideEach(ctx, calls, verdicts, errs) },
		"together": func() { e.DecideTogether(ctx, calls, verdicts, errs) },
		"parts": func() {
			e.DecideParts(ctx, compile(t, "rules: []"), parts)
			verdicts[0], errs[0] = *parts[0].Verdict, parts[0].Err
		},
	} {
		before := e.Stats().Cancelled
		decide()
		n := int64(2)
		if name == "parts" {
			n = 1
		}
		for i := range n {
			if got := render(&verdicts[i], errs[i]); got != "deny ok error=unavailable" || !errors.Is(errs[i], context.Canceled) {
				t.Errorf("%s: %s: %v", name, got, errs[i])
			}
		}
		if got := e.Stats().Cancelled - before; got != n || len(seen.seen) != 0 {
			t.Errorf("%s: %d cancelled requests, observed %q", name, got, seen.seen)
		}
	}
	var v penstock.Verdict
	if err := e.Decide(t.Context(), &calls[1], &v); err != nil || v.Decision.Remaining != 9 {
		t.Errorf("afterwards: %v, %d left: a cancelled request was charged", err, v.Decision.Remaining)
	}
}

// Concluding a reservation of a store that has failed since, or cannot conclude, does not panic.
func TestConcludeWithoutTheStore(t *testing.T) {
	text := `rules: [{name: places, key: [], limits: [{concurrent: 1, ttl: 30s}]}]`
	rules := engine.Fixed(compile(t, text))
	memory := newMemory(t)
	whole := newEngine(t, text, engine.Options{Rules: rules, Store: memory})
	var v penstock.Verdict
	if err := whole.Decide(t.Context(), &penstock.Call{Cost: 1}, &v); err != nil || v.Reservation == "" {
		t.Fatal("nothing was reserved: ", err)
	}
	c := penstock.Conclusion{Verb: penstock.Release, Reservation: v.Reservation}
	for name, test := range map[string]struct {
		store penstock.Store
		want  string
	}{
		"panics":  {panics{}, "deny ok error=unavailable"},
		"stopped": {stopped(t), "deny ok error=unavailable"},
		"cannot":  {takeOnly{memory}, "deny ok error=invalid"},
		"can":     {memory, "allow ok places 0/1"},
	} {
		e := newEngine(t, text, engine.Options{Rules: rules, Store: test.store})
		err := e.Conclude(t.Context(), &c, &v)
		if got := render(&v, err); got != test.want {
			t.Errorf("%s: %s (%v), not %s", name, got, err, test.want)
		}
	}
}

// takeOnly is a store without its other abilities.
type takeOnly struct{ store penstock.Store }

func (s takeOnly) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	return s.store.Take(ctx, t, out)
}

// If the store cannot give back, a shadow rule's permit expires.
func TestPlacesOfAStoreThatCannot(t *testing.T) {
	e := newEngine(t, `
rules:
  - {name: live, key: [], limits: [{rate: 0/1h, algorithm: fixed_window}]}
  - {name: tried, mode: shadow, key: [], limits: [{concurrent: 5, ttl: 30s}]}
`, engine.Options{Store: takeOnly{newMemory(t)}, Now: func() penstock.Instant { return beginning }})
	for _, want := range []string{"deny over_limit live 0/0 wait=never { !live 0/0 ~tried 1/5 }", "deny over_limit live 0/0 wait=never { !live 0/0 ~tried 2/5 }"} {
		var v penstock.Verdict
		err := e.Decide(t.Context(), &penstock.Call{Cost: 1}, &v)
		if got := render(&v, err); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

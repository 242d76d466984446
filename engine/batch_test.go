package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
)

const manyKinds = `
rules:
  - {name: per-user, key: [user], limits: [{rate: 20/1h, algorithm: fixed_window}], penalty: {after: 9, within: 1h, bans: [1m]}}
  - {name: ids, key: [user], dedup: {ttl: 1m}, limits: [{rate: 30/1h, algorithm: sliding_window_log}], cost: {attribute: tokens}}
  - {name: queue, match: {attributes: {user: u1}}, key: [], limits: [{rate: 10/1m, queue: 20, algorithm: leaky_bucket}]}
  - {name: tried, mode: shadow, key: [], limits: [{rate: 90/1h, algorithm: token_bucket}]}
lists: {deny: [{user: u9}], allow: [{user: u8}]}
`

// someCalls are requests of all kinds, including invalid ones.
func someCalls(n int) []penstock.Call {
	random := rand.New(rand.NewPCG(1, 2))
	calls := make([]penstock.Call, n)
	for i := range calls {
		calls[i] = penstock.Call{
			Cost: random.Int64N(4) - random.Int64N(2), ID: fmt.Sprint(random.IntN(50)), MaxDelay: 1 << 40,
			Attributes: attributes("user", fmt.Sprintf("u%d", random.IntN(10)), "tokens", fmt.Sprint(random.IntN(4))),
		}
		if random.IntN(10) == 0 {
			calls[i].Attributes = nil
		}
	}
	return calls
}

// A batch in memory is decided as its requests one by one, and observed in their order.
func TestBatchAsOneByOne(t *testing.T) {
	const n = 700 // more than go to the store at once
	calls := someCalls(n)
	for name, newStore := range map[string]func() penstock.Store{
		"answers": func() penstock.Store { return newMemory(t) },
		"panics":  func() penstock.Store { return panics{} },
	} {
		t.Run(name, func(t *testing.T) {
			newOne := func(o *recordingObserver) *engine.Engine {
				return newEngine(t, manyKinds, engine.Options{
					Store: newStore(), Local: newMemory(t), Observe: o.observe, Now: func() penstock.Instant { return beginning },
				})
			}
			var one, batch recordingObserver
			single, together := newOne(&one), newOne(&batch)
			want, got, errs := make([]penstock.Verdict, n), make([]penstock.Verdict, n), make([]error, n)
			together.DecideEach(t.Context(), calls, got, errs)
			for i := range calls {
				err := single.Decide(t.Context(), &calls[i], &want[i])
				if kindOf(err) != kindOf(errs[i]) {
					t.Fatalf("call %d: %v, not %v", i, errs[i], err)
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the verdicts differ (- one by one, + in a batch):\n%.4000s", diff)
			}
			batch.check(t, one.seen...)
		})
	}
}

// Of a large batch in Redis exactly the limit passes, and every request is observed. An empty batch does nothing.
func TestBatchInRedis(t *testing.T) {
	const n, limit = 300, 100
	var seen atomic.Int64
	e := newEngine(t, fmt.Sprintf(`rules: [{name: all, key: [], limits: [{rate: %d/1h, algorithm: fixed_window}]}]`, limit), engine.Options{
		Store: newRedis(t, redistest.Start(t), ""), Now: func() penstock.Instant { return beginning }, Observe: func(*engine.Observation) { seen.Add(1) },
	})
	calls, verdicts, errs := make([]penstock.Call, n), make([]penstock.Verdict, n), make([]error, n)
	for i := range calls {
		calls[i].Cost = 1
	}
	e.DecideEach(t.Context(), calls, verdicts, errs)
	allowed := 0
	for i := range verdicts {
		if errs[i] != nil || len(verdicts[i].Limits) != 1 {
			t.Fatalf("call %d: %v: %+v", i, errs[i], verdicts[i])
		}
		if verdicts[i].Allowed {
			allowed++
		}
	}
	if allowed != limit || seen.Load() != n {
		t.Errorf("%d of %d calls passed, at a limit of %d, and %d were observed", allowed, n, limit, seen.Load())
	}
	e.DecideEach(t.Context(), nil, nil, nil)
}

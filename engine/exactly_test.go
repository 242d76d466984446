package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
)

const (
	exactLimit   = 50
	exactCallers = 16
	exactEach    = 20
)

// admitted returns how many of many concurrent requests pass.
func admitted(t *testing.T, store penstock.Store) int64 {
	t.Helper()
	e := newEngine(t, `
rules:
  - {name: per-user, key: [user], limits: [{rate: 50/1h, algorithm: sliding_window_log}, {rate: 60/1d, algorithm: fixed_window}]}
  - {name: all, key: [], limits: [{rate: 55/1h, algorithm: token_bucket}]}
  - {name: tried, mode: shadow, key: [], limits: [{rate: 5/1h, algorithm: fixed_window}]}
`, engine.Options{Store: store, Now: func() penstock.Instant { return beginning }})
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range exactCallers {
		callers.Go(func() {
			c := penstock.Call{Cost: 1, Attributes: attributes("user", "u")}
			var v penstock.Verdict
			for range exactEach {
				if err := e.Decide(context.Background(), &c, &v); err != nil {
					t.Error(err)
				}
				if v.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	callers.Wait()
	return passed.Load()
}

func TestExactlyTheLimitPasses(t *testing.T) {
	for name, store := range map[string]penstock.Store{"memory": newMemory(t), "redis": newRedis(t, redistest.Start(t), "")} {
		if got := admitted(t, store); got != exactLimit {
			t.Errorf("%s: %d calls passed at a limit of %d", name, got, exactLimit)
		}
	}
	forgetful := &tamperingStore{newMemory(t), sabotage{ticket: everyCharge(func(c *algorithm.Charge) { c.Cost = 0 })}}
	if got := admitted(t, forgetful); got == exactLimit {
		t.Error("a store that counts nothing was not noticed")
	}
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

const refundable = `
rules:
  - {name: hourly, key: [user], limits: [{rate: 3/1h, algorithm: fixed_window}], on_store_error: local}
  - {name: running, match: {op: long}, key: [user], limits: [{concurrent: 2, ttl: 10m}], on_store_error: local}
`

// absentStore is a store that is unavailable for a while.
type absentStore struct {
	*memstore.Store
	away atomic.Bool
}

func (a *absentStore) err() error {
	if a.away.Load() {
		return fmt.Errorf("%w: %w", penstock.ErrUnavailable, storage.ErrNotTaken)
	}
	return nil
}

func (a *absentStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.Store.Take(ctx, t, out)
}

func (a *absentStore) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	if err := a.err(); err != nil {
		return err
	}
	return a.Store.Settle(ctx, s, out)
}

func called(id string, cost int64, pairs ...string) *penstock.Call {
	return &penstock.Call{Attributes: attributes(pairs...), Cost: cost, ID: id, Named: id != ""}
}

// While the store is unavailable, a refund applies to what the node has counted meanwhile, and releases are
// sent again.
func TestRefundWithoutTheStore(t *testing.T) {
	store := &absentStore{Store: newMemory(t)}
	e := newEngine(t, refundable, engine.Options{Store: store, Local: newMemory(t), Refunds: true, Now: scenarioNow})
	used := func(rule string, pairs ...string) (n int64) {
		t.Helper()
		var v penstock.Verdict
		_ = e.Decide(t.Context(), called("", 0, pairs...), &v)
		for _, l := range v.Limits {
			if l.Rule == rule {
				return l.Used
			}
		}
		t.Fatalf("no limit of %s: %+v", rule, v)
		return 0
	}
	act := func(do func(context.Context, *penstock.Call, *penstock.Verdict) error, c *penstock.Call) {
		t.Helper()
		var v penstock.Verdict
		if err := do(t.Context(), c, &v); err != nil && !errors.Is(err, penstock.ErrUnavailable) || !v.Allowed {
			t.Fatalf("%+v: %v, %+v", c, err, v)
		}
	}
	act(e.Decide, called("a", 1, "user", "u", "op", "long"))
	act(e.Decide, called("", 1, "user", "u"))
	if n := used("hourly", "user", "u"); n != 2 {
		t.Fatalf("%d used of the store, want 2", n)
	}
	store.away.Store(true)
	act(e.Decide, called("", 2, "user", "v"))
	act(e.Refund, called("", 1, "user", "v"))
	if n := used("hourly", "user", "v"); n != 1 {
		t.Errorf("%d used of this node, want 1", n)
	}
	act(e.Refund, called("a", 1, "user", "u", "op", "long")) // which the store does not get yet
	store.away.Store(false)
	if err := e.Close(t.Context()); err != nil { // sends what is not confirmed
		t.Fatal(err)
	}
	if hourly, running := used("hourly", "user", "u"), used("running", "user", "u", "op", "long"); hourly != 1 || running != 0 {
		t.Errorf("after the release %d used and %d running, want 1 and 0", hourly, running)
	}
}

// Without the option nothing can be given back, and IDs name nothing.
func TestNoRefunds(t *testing.T) {
	e := newEngine(t, refundable, engine.Options{Now: scenarioNow})
	var v penstock.Verdict
	for range 2 {
		if err := e.Decide(t.Context(), called("a", 1, "user", "u", "op", "long"), &v); err != nil || !v.Allowed {
			t.Fatalf("%+v: %v", v, err)
		}
	}
	if n := v.Limits[1].Used; n != 2 {
		t.Errorf("%d permits taken by two calls of one id, want 2", n)
	}
	if err := e.Refund(t.Context(), called("", 1, "user", "u"), &v); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("a refund: %v", err)
	}
}

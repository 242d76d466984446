package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

// A Model is the obviously correct store: one lock, Go maps, the root package's pure functions,
// and no forgetting. Other stores are compared with it; it is far too slow and too greedy for
// anything else.
type Model struct {
	mu     sync.Mutex
	ledger ledger
}

// NewModel returns a Model that has seen nobody.
func NewModel() *Model { return &Model{ledger: newLedger()} }

// Take implements [penstock.Store].
func (m *Model) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: model not asked: %w", penstock.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ledger.take(t, instantOf(t), out)
	return nil
}

// instantOf is the instant a store without a clock of its own decides the ticket at.
func instantOf(t *penstock.Ticket) penstock.Instant {
	if t.Now != 0 {
		return t.Now
	}
	return penstock.InstantOf(time.Now())
}

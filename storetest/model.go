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

var _ Able = (*Model)(nil)

// NewModel returns a Model that has seen nobody.
func NewModel() *Model { return &Model{ledger: newLedger()} }

// Take implements [penstock.Store].
func (m *Model) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.take(t, instantOf(t.Now), out)
		return nil
	})
}

// Settle implements [penstock.Settler].
func (m *Model) Settle(ctx context.Context, s *penstock.Settlement, out *penstock.Settled) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		if err := m.ledger.settle(s, instantOf(s.Now), out); err != nil {
			return fmt.Errorf("%v %d: %w", s.Verb, s.Nonce, err)
		}
		return nil
	})
}

// Ban implements [penstock.Banner].
func (m *Model) Ban(ctx context.Context, b *penstock.Ban) (until penstock.Instant, err error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	err = m.locked(ctx, func() error {
		until = m.ledger.ban(b, instantOf(b.Now))
		return nil
	})
	return until, err
}

// ChargeLate implements [penstock.LateCharger].
func (m *Model) ChargeLate(ctx context.Context, c *penstock.LateCharge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.chargeLate(c, instantOf(c.Now))
		return nil
	})
}

// Reset implements [penstock.Resetter].
func (m *Model) Reset(ctx context.Context, g *penstock.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.reset(g)
		return nil
	})
}

// Reservations implements [penstock.Inspector].
func (m *Model) Reservations(ctx context.Context, now penstock.Instant, s penstock.Subject, most int) (some []penstock.Reservation, total int64, err error) {
	if err := penstock.ValidateInspection(now, most); err != nil {
		return nil, 0, err
	}
	err = m.locked(ctx, func() error {
		live := m.ledger.reserved(instantOf(now), s)
		some, total = live[:min(most, len(live))], int64(len(live))
		return nil
	})
	return some, total, err
}

func (m *Model) locked(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: model not asked: %w", penstock.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return do()
}

// instantOf is the instant a store without a clock of its own decides at.
func instantOf(now penstock.Instant) penstock.Instant {
	if now != 0 {
		return now
	}
	return penstock.InstantOf(time.Now())
}

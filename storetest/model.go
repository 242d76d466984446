package storetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A Model is the obviously correct store: one lock, Go maps, the root package's pure functions, and no
// expiry. Other stores are compared with it. It is far too slow and uses too much memory for anything else.
type Model struct {
	mu     sync.Mutex
	ledger ledger
}

var _ CompleteStore = (*Model)(nil)

// NewModel returns an empty Model.
func NewModel() *Model { return &Model{ledger: newLedger()} }

// Take implements [storage.Store].
func (m *Model) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.take(t, instantOf(t.Now), out)
		return nil
	})
}

// Settle implements [storage.Settler].
func (m *Model) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
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

// Ban implements [storage.Banner].
func (m *Model) Ban(ctx context.Context, b *storage.Ban) (until algorithm.Instant, err error) {
	if err := b.Validate(); err != nil {
		return 0, err
	}
	err = m.locked(ctx, func() error {
		until = m.ledger.ban(b, instantOf(b.Now))
		return nil
	})
	return until, err
}

// ChargeLate implements [storage.LateCharger].
func (m *Model) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.chargeLate(c, instantOf(c.Now))
		return nil
	})
}

// Reset implements [storage.Resetter].
func (m *Model) Reset(ctx context.Context, g *storage.Group) error {
	if err := g.ValidateReset(); err != nil {
		return err
	}
	return m.locked(ctx, func() error {
		m.ledger.reset(g)
		return nil
	})
}

// Reservations implements [storage.Inspector].
func (m *Model) Reservations(ctx context.Context, now algorithm.Instant, s storage.Subject, most int) (some []storage.Reservation, total int64, err error) {
	if err := storage.ValidateInspection(now, most); err != nil {
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
		return fmt.Errorf("%w: model not asked: %w", storage.ErrUnavailable, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return do()
}

// instantOf returns the instant at which a store without its own clock decides.
func instantOf(now algorithm.Instant) algorithm.Instant {
	if now != 0 {
		return now
	}
	return algorithm.InstantOf(time.Now())
}

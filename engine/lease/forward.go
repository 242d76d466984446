package lease

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// What is not deciding is the inner store's to do.

var (
	_ penstock.Store      = (*Store)(nil)
	_ storage.Settler     = (*Store)(nil)
	_ storage.Banner      = (*Store)(nil)
	_ storage.Resetter    = (*Store)(nil)
	_ storage.Inspector   = (*Store)(nil)
	_ storage.Lister      = (*Store)(nil)
	_ storage.LateCharger = (*Store)(nil)
)

func (s *Store) cannot(what string) error {
	return fmt.Errorf("%s: %w: %T cannot", what, penstock.ErrInvalid, s.store)
}

// Settle implements [storage.Settler]. Nothing that was reserved is leased.
func (s *Store) Settle(ctx context.Context, settlement *storage.Settlement, out *storage.Settled) error {
	if inner, ok := s.store.(storage.Settler); ok {
		return inner.Settle(ctx, settlement, out)
	}
	return s.cannot("settle")
}

// Ban implements [storage.Banner]. No rule that bans is leased.
func (s *Store) Ban(ctx context.Context, b *storage.Ban) (penstock.Instant, error) {
	if inner, ok := s.store.(storage.Banner); ok {
		return inner.Ban(ctx, b)
	}
	return 0, s.cannot("ban")
}

// Reset implements [storage.Resetter]. Permits were charged to what is now forgotten: this node's are
// dropped, also those on their way.
func (s *Store) Reset(ctx context.Context, g *storage.Group) error {
	inner, ok := s.store.(storage.Resetter)
	if !ok {
		return s.cannot("reset")
	}
	err := inner.Reset(ctx, g)
	s.table.forget(&g.Subject) // whatever the error: it may have been done
	return err
}

// Reservations implements [storage.Inspector].
func (s *Store) Reservations(ctx context.Context, now penstock.Instant, subject storage.Subject, most int) ([]storage.Reservation, int64, error) {
	if inner, ok := s.store.(storage.Inspector); ok {
		return inner.Reservations(ctx, now, subject, most)
	}
	return nil, 0, s.cannot("inspect")
}

// ChargeLate implements [storage.LateCharger]. What a lease admitted was charged when it was taken.
func (s *Store) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	if inner, ok := s.store.(storage.LateCharger); ok {
		return inner.ChargeLate(ctx, c)
	}
	return s.cannot("charge late")
}

// Keys implements [storage.Lister].
func (s *Store) Keys(ctx context.Context, tag storage.RuleTag, cursor string, about int) ([]string, string, error) {
	if inner, ok := s.store.(storage.Lister); ok {
		return inner.Keys(ctx, tag, cursor, about)
	}
	return nil, "", s.cannot("list keys")
}

// Size implements [storage.Lister].
func (s *Store) Size(ctx context.Context) (int64, error) {
	if inner, ok := s.store.(storage.Lister); ok {
		return inner.Size(ctx)
	}
	return 0, s.cannot("count keys")
}

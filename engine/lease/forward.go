package lease

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
)

// What is not deciding is the inner store's to do.

var (
	_ penstock.Store       = (*Store)(nil)
	_ penstock.Settler     = (*Store)(nil)
	_ penstock.Banner      = (*Store)(nil)
	_ penstock.Resetter    = (*Store)(nil)
	_ penstock.Inspector   = (*Store)(nil)
	_ penstock.Lister      = (*Store)(nil)
	_ penstock.LateCharger = (*Store)(nil)
)

func (s *Store) cannot(what string) error {
	return fmt.Errorf("%s: %w: %T cannot", what, penstock.ErrInvalid, s.store)
}

// Settle implements [penstock.Settler]. Nothing that was reserved is leased.
func (s *Store) Settle(ctx context.Context, settlement *penstock.Settlement, out *penstock.Settled) error {
	if inner, ok := s.store.(penstock.Settler); ok {
		return inner.Settle(ctx, settlement, out)
	}
	return s.cannot("settle")
}

// Ban implements [penstock.Banner]. No rule that bans is leased.
func (s *Store) Ban(ctx context.Context, b *penstock.Ban) (penstock.Instant, error) {
	if inner, ok := s.store.(penstock.Banner); ok {
		return inner.Ban(ctx, b)
	}
	return 0, s.cannot("ban")
}

// Reset implements [penstock.Resetter]. Permits were charged to what is now forgotten: this node's are
// dropped, also those on their way.
func (s *Store) Reset(ctx context.Context, g *penstock.Group) error {
	inner, ok := s.store.(penstock.Resetter)
	if !ok {
		return s.cannot("reset")
	}
	err := inner.Reset(ctx, g)
	s.table.forget(&g.Subject) // whatever the error: it may have been done
	return err
}

// Reservations implements [penstock.Inspector].
func (s *Store) Reservations(ctx context.Context, now penstock.Instant, subject penstock.Subject, most int) ([]penstock.Reservation, int64, error) {
	if inner, ok := s.store.(penstock.Inspector); ok {
		return inner.Reservations(ctx, now, subject, most)
	}
	return nil, 0, s.cannot("inspect")
}

// ChargeLate implements [penstock.LateCharger]. What a lease admitted was charged when it was taken.
func (s *Store) ChargeLate(ctx context.Context, c *penstock.LateCharge) error {
	if inner, ok := s.store.(penstock.LateCharger); ok {
		return inner.ChargeLate(ctx, c)
	}
	return s.cannot("charge late")
}

// Keys implements [penstock.Lister].
func (s *Store) Keys(ctx context.Context, tag penstock.RuleTag, cursor string, about int) ([]string, string, error) {
	if inner, ok := s.store.(penstock.Lister); ok {
		return inner.Keys(ctx, tag, cursor, about)
	}
	return nil, "", s.cannot("list keys")
}

// Size implements [penstock.Lister].
func (s *Store) Size(ctx context.Context) (int64, error) {
	if inner, ok := s.store.(penstock.Lister); ok {
		return inner.Size(ctx)
	}
	return 0, s.cannot("count keys")
}

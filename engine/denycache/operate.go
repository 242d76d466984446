package denycache

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
)

var (
	_ penstock.Store       = (*Cache)(nil)
	_ penstock.Settler     = (*Cache)(nil)
	_ penstock.Banner      = (*Cache)(nil)
	_ penstock.Resetter    = (*Cache)(nil)
	_ penstock.Inspector   = (*Cache)(nil)
	_ penstock.Lister      = (*Cache)(nil)
	_ penstock.LateCharger = (*Cache)(nil)
)

// Forget drops what is known of a subject, and refuses what the store was asked about it before: for
// whoever hears that another node has reset it, or lifted its ban.
func (c *Cache) Forget(s penstock.Subject) { c.table.forget(s) }

// Settle may give back, so what was denied may pass. Here and below the subject is forgotten after the
// store is done, and after an error too, as it may have been done.
func (c *Cache) Settle(ctx context.Context, s *penstock.Settlement, out *penstock.Settled) error {
	settler, ok := c.store.(penstock.Settler)
	if !ok {
		return c.cannot("settle")
	}
	defer c.Forget(s.Subject)
	return settler.Settle(ctx, s, out)
}

// Ban bans through the store, or lifts.
func (c *Cache) Ban(ctx context.Context, b *penstock.Ban) (until penstock.Instant, err error) {
	banner, ok := c.store.(penstock.Banner)
	if !ok {
		return 0, c.cannot("ban")
	}
	defer c.Forget(b.Subject)
	return banner.Ban(ctx, b)
}

// Reset resets through the store.
func (c *Cache) Reset(ctx context.Context, g *penstock.Group) error {
	resetter, ok := c.store.(penstock.Resetter)
	if !ok {
		return c.cannot("reset")
	}
	defer c.Forget(g.Subject)
	return resetter.Reset(ctx, g)
}

// Reservations are the store's.
func (c *Cache) Reservations(ctx context.Context, now penstock.Instant, s penstock.Subject, most int) ([]penstock.Reservation, int64, error) {
	inspector, ok := c.store.(penstock.Inspector)
	if !ok {
		return nil, 0, c.cannot("inspect")
	}
	return inspector.Reservations(ctx, now, s, most)
}

// ChargeLate charges through the store. Denials stay right, but not the numbers that are cached with them.
func (c *Cache) ChargeLate(ctx context.Context, late *penstock.LateCharge) error {
	charger, ok := c.store.(penstock.LateCharger)
	if !ok {
		return c.cannot("charge late")
	}
	defer c.Forget(late.Subject)
	return charger.ChargeLate(ctx, late)
}

// Keys are the store's.
func (c *Cache) Keys(ctx context.Context, tag penstock.RuleTag, cursor string, about int) (page []string, next string, err error) {
	lister, ok := c.store.(penstock.Lister)
	if !ok {
		return nil, "", c.cannot("list")
	}
	return lister.Keys(ctx, tag, cursor, about)
}

// Size is the store's.
func (c *Cache) Size(ctx context.Context) (int64, error) {
	lister, ok := c.store.(penstock.Lister)
	if !ok {
		return 0, c.cannot("list")
	}
	return lister.Size(ctx)
}

func (c *Cache) cannot(what string) error {
	return fmt.Errorf("%s: %w: the store behind the deny cache, a %T, cannot", what, penstock.ErrInvalid, c.store)
}

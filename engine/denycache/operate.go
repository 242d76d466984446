package denycache

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

var (
	_ penstock.Store      = (*Cache)(nil)
	_ storage.Settler     = (*Cache)(nil)
	_ storage.Banner      = (*Cache)(nil)
	_ storage.Resetter    = (*Cache)(nil)
	_ storage.Inspector   = (*Cache)(nil)
	_ storage.Lister      = (*Cache)(nil)
	_ storage.LateCharger = (*Cache)(nil)
)

// Forget drops what is known of a subject, and refuses what the store was asked about it before: for
// whoever hears that another node has reset it, or lifted its ban.
func (c *Cache) Forget(s storage.Subject) { c.table.forget(s) }

// Settle may give back, so what was denied may pass. Here and below the subject is forgotten after the
// store is done, and after an error too, as it may have been done.
func (c *Cache) Settle(ctx context.Context, s *storage.Settlement, out *storage.Settled) error {
	settler, ok := c.store.(storage.Settler)
	if !ok {
		return c.cannot("settle")
	}
	defer c.Forget(s.Subject)
	return settler.Settle(ctx, s, out)
}

// Ban bans through the store, or lifts.
func (c *Cache) Ban(ctx context.Context, b *storage.Ban) (until penstock.Instant, err error) {
	banner, ok := c.store.(storage.Banner)
	if !ok {
		return 0, c.cannot("ban")
	}
	defer c.Forget(b.Subject)
	return banner.Ban(ctx, b)
}

// Reset resets through the store.
func (c *Cache) Reset(ctx context.Context, g *storage.Group) error {
	resetter, ok := c.store.(storage.Resetter)
	if !ok {
		return c.cannot("reset")
	}
	defer c.Forget(g.Subject)
	return resetter.Reset(ctx, g)
}

// Reservations are the store's.
func (c *Cache) Reservations(ctx context.Context, now penstock.Instant, s storage.Subject, most int) ([]storage.Reservation, int64, error) {
	inspector, ok := c.store.(storage.Inspector)
	if !ok {
		return nil, 0, c.cannot("inspect")
	}
	return inspector.Reservations(ctx, now, s, most)
}

// ChargeLate charges through the store. Denials stay right, but not the numbers that are cached with them.
func (c *Cache) ChargeLate(ctx context.Context, late *storage.LateCharge) error {
	charger, ok := c.store.(storage.LateCharger)
	if !ok {
		return c.cannot("charge late")
	}
	defer c.Forget(late.Subject)
	return charger.ChargeLate(ctx, late)
}

// Keys are the store's.
func (c *Cache) Keys(ctx context.Context, tag storage.RuleTag, cursor string, about int) (page []string, next string, err error) {
	lister, ok := c.store.(storage.Lister)
	if !ok {
		return nil, "", c.cannot("list")
	}
	return lister.Keys(ctx, tag, cursor, about)
}

// Size is the store's.
func (c *Cache) Size(ctx context.Context) (int64, error) {
	lister, ok := c.store.(storage.Lister)
	if !ok {
		return 0, c.cannot("list")
	}
	return lister.Size(ctx)
}

func (c *Cache) cannot(what string) error {
	return fmt.Errorf("%s: %w: the store behind the deny cache, a %T, cannot", what, penstock.ErrInvalid, c.store)
}

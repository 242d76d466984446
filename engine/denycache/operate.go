package denycache

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

var _ storage.FullStore = (*Cache)(nil)

// Forget drops what is known of a subject, and rejects answers that the store was asked for earlier. It is
// called when another node has reset the subject or lifted its ban.
func (c *Cache) Forget(s storage.Subject) { c.table.forget(s) }

// Settle settles through the store. It may give back, so what was denied may pass. Here and below the subject
// is forgotten after the store has finished, even with an error, because it may have taken effect.
func (c *Cache) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	defer c.Forget(s.Subject)
	return c.inner.Settle(ctx, s, out)
}

// Ban sets or lifts a ban through the store.
func (c *Cache) Ban(ctx context.Context, b *storage.Ban) (until penstock.Instant, err error) {
	defer c.Forget(b.Subject)
	return c.inner.Ban(ctx, b)
}

// Reset resets through the store.
func (c *Cache) Reset(ctx context.Context, g *storage.Group) error {
	defer c.Forget(g.Subject)
	return c.inner.Reset(ctx, g)
}

// ChargeLate charges through the store. Denials stay right, but the numbers cached with them do not.
func (c *Cache) ChargeLate(ctx context.Context, late *storage.LateCharge) error {
	defer c.Forget(late.Subject)
	return c.inner.ChargeLate(ctx, late)
}

package denycache_test

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
	"github.com/penstock-io/penstock/storetest"
)

// A naive cache keeps whole answers, with configurable bugs.
type naive struct {
	storetest.CompleteStore
	known map[storage.Subject]memo

	keepsTooLong, ignoresCost, ignoresLimit, ignoresSubject         bool
	believesRetryAfter                                              bool // of anything that is denied
	survivesReset, survivesLift, survivesSettlement, forgetsShadows bool
}

type memo struct {
	out   storage.Outcome
	cost  int64
	meter *algorithm.Meter
	until penstock.Instant
}

func (n *naive) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	g := &t.Groups[0]
	who, c := g.Subject, g.Charges[0]
	if n.ignoresSubject {
		who = storage.Subject{}
	}
	m, ok := n.known[who]
	ok = ok && (len(t.Groups) == 1 || n.forgetsShadows)
	ok = ok && (t.Now < m.until || n.keepsTooLong)
	ok = ok && (c.Cost >= m.cost || n.ignoresCost)
	if ok && (c.Meter.Count == m.meter.Count || n.ignoresLimit) {
		*out = m.out
		return nil
	}
	if err := n.CompleteStore.Take(ctx, t, out); err != nil || out.Allowed {
		return err
	}
	until := out.Groups[0].FirmUntil
	if n.believesRetryAfter {
		until = out.Now.Add(out.Decisions[0].RetryAfter)
	}
	n.known[who] = memo{*out, c.Cost, c.Meter, min(until, t.Now+second)}
	return nil
}

func (n *naive) Reset(ctx context.Context, g *storage.Group) error {
	if !n.survivesReset {
		delete(n.known, g.Subject)
	}
	return n.CompleteStore.Reset(ctx, g)
}

func (n *naive) Ban(ctx context.Context, b *storage.Ban) (penstock.Instant, error) {
	if !n.survivesLift {
		delete(n.known, b.Subject)
	}
	return n.CompleteStore.Ban(ctx, b)
}

func (n *naive) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	if !n.survivesSettlement {
		delete(n.known, s.Subject)
	}
	return n.CompleteStore.Settle(ctx, s, out)
}

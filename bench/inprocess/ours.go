package inprocess

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

func ours() []Contestant {
	one := func(a penstock.Algorithm) Contestant {
		return Contestant{"penstock " + a.String(), report.Ours, func(l Limit) (Limiter, error) {
			return openPenstock(penstock.Limit{Algorithm: a, Count: l.Count, Window: l.Window})
		}}
	}
	return []Contestant{
		one(penstock.TokenBucket),
		one(penstock.SlidingWindowCounter),
		one(penstock.FixedWindow),
		{Batched, report.Ours, func(l Limit) (Limiter, error) {
			limiter, err := openPenstock(penstock.Limit{Algorithm: penstock.TokenBucket, Count: l.Count, Window: l.Window})
			if err != nil {
				return nil, err
			}
			return batchedLimiter{limiter.(*penstockLimiter)}, nil
		}},
		{"penstock two limits per call", report.Ours, func(l Limit) (Limiter, error) {
			return openPenstock(
				penstock.Limit{Algorithm: penstock.TokenBucket, Count: l.Count, Window: l.Window},
				penstock.Limit{Algorithm: penstock.FixedWindow, Count: l.Count, Window: 24 * time.Hour},
			)
		}},
	}
}

type penstockLimiter struct {
	store  *memstore.Store
	hasher storage.RuleHasher
	meters []*algorithm.Meter
}

func openPenstock(limits ...penstock.Limit) (Limiter, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	p := &penstockLimiter{store: store, hasher: storage.NewHasher("bench").Rule("bench", "limit", "key")}
	for _, l := range limits {
		m, err := l.Compile()
		if err != nil {
			return nil, err
		}
		p.meters = append(p.meters, m)
	}
	return p, nil
}

// caller does what a service does for each request: it hashes the key, fills a ticket, and gets a full decision
// into an outcome that it reuses.
func (p *penstockLimiter) caller(share int64) TakeFunc {
	charges := make([]algorithm.Charge, len(p.meters))
	for i, m := range p.meters {
		charges[i] = algorithm.Charge{Meter: m, Cost: max(1, m.Capacity/share)}
	}
	ticket := &storage.Ticket{Groups: []storage.Group{{Charges: charges}}}
	out := &storage.Outcome{}
	ctx := context.Background()
	return func(key string) (bool, error) {
		ticket.Groups[0].Subject = p.hasher.Subject(key)
		err := p.store.Take(ctx, ticket, out)
		return out.Allowed, err
	}
}

// everything is a share of the capacity that makes a charge cost one.
const everything = 1 << 62

func (p *penstockLimiter) Caller() TakeFunc { return p.caller(everything) }

// Warm takes half of the capacity, because a nearly unused counter soon equals an unused one and is dropped.
func (p *penstockLimiter) Warm(key string) error {
	allowed, err := p.caller(2)(key)
	if err != nil {
		return err
	}
	if !allowed {
		return fmt.Errorf("half of the capacity was denied to the new key %q", key)
	}
	return nil
}

func (p *penstockLimiter) Bytes() int64 { return p.store.Stats().Bytes }
func (p *penstockLimiter) Close() error { return p.store.Close() }

// Batched is our row in which requests come in batches, as over an API that accepts lists.
const Batched = "penstock token_bucket, 32 at a time"

type batchedLimiter struct{ *penstockLimiter }

// Caller collects requests and decides them together. For each request it returns the decision at the same place
// of the previous batch; the first batch is decided one by one.
func (p batchedLimiter) Caller() TakeFunc {
	const size = 32
	single := p.penstockLimiter.Caller()
	turns := make([]storage.BatchItem, size)
	for i := range turns {
		turns[i].Ticket.Groups = []storage.Group{{Charges: []algorithm.Charge{{Meter: p.meters[0], Cost: 1}}}}
	}
	ctx := context.Background()
	n, filled := 0, false
	return func(key string) (bool, error) {
		if !filled {
			allowed, err := single(key)
			turns[n].Outcome.Allowed = allowed
			n = (n + 1) % size
			filled = n == 0
			return allowed, err
		}
		t := &turns[n]
		allowed, err := t.Outcome.Allowed, t.Err
		t.Ticket.Groups[0].Subject = p.hasher.Subject(key)
		if n++; n == size {
			n = 0
			p.store.TakeEach(ctx, turns)
		}
		return allowed, err
	}
}

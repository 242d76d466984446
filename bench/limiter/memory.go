package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/storage"
)

func oursInMemory() []Contestant {
	one := func(a penstock.Algorithm) Contestant {
		return Contestant{Name: "penstock " + a.String(), Role: report.Ours, Open: func(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
			return openPenstock(l, l.with(a))
		}}
	}
	return []Contestant{
		one(penstock.TokenBucket),
		one(penstock.SlidingWindowCounter),
		one(penstock.FixedWindow),
		{Name: Batched, Role: report.Ours, Open: openBatched},
		{Name: OurTwo, Role: report.Ours, Open: func(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
			return openPenstock(l, l.with(penstock.TokenBucket), Limit{Count: l.Count, Window: 24 * time.Hour}.with(penstock.FixedWindow))
		}},
	}
}

// penstockLimiter is what a program uses: a limiter on a memory store.
type penstockLimiter struct {
	*memstore.Store
	limiter *penstock.Limiter
	count   int64
}

func openPenstock(l Limit, limits ...penstock.Limit) (lab.Limiter, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: l.MaxBytes})
	if err != nil {
		return nil, err
	}
	options := make([]penstock.Option, len(limits))
	for i, limit := range limits {
		options[i] = limit
	}
	limiter, err := penstock.New(store, options...)
	return &penstockLimiter{store, limiter, l.Count}, err
}

func (p *penstockLimiter) Caller() lab.TakeFunc {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := p.limiter.Allow(ctx, key)
		return d.Allowed, err
	}
}

// Warm takes half of the capacity, because a nearly unused counter soon equals an unused one and is dropped.
func (p *penstockLimiter) Warm(ctx context.Context, key string) error {
	d, err := p.limiter.Take(ctx, key, max(1, p.count/2))
	if err == nil && !d.Allowed {
		return fmt.Errorf("half of the capacity was denied to the new key %q", key)
	}
	return err
}

// batchedLimiter does what a service does for each list of requests, as over an API that accepts lists: it hashes the
// keys, fills tickets, and gets full decisions into outcomes that it reuses.
type batchedLimiter struct {
	*memstore.Store
	hasher storage.RuleHasher
	meter  *algorithm.Meter
}

func openBatched(_ context.Context, _ string, l Limit) (lab.Limiter, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	meter, err := l.with(penstock.TokenBucket).Compile()
	return batchedLimiter{store, storage.NewHasher("bench").Rule("bench", "limit", "key"), meter}, err
}

func (p batchedLimiter) ticket(key string, cost int64) storage.Ticket {
	return storage.Ticket{Groups: []storage.Group{{Subject: p.hasher.Subject(key), Charges: []algorithm.Charge{{Meter: p.meter, Cost: cost}}}}}
}

func (p batchedLimiter) Warm(ctx context.Context, key string) error {
	ticket, out := p.ticket(key, max(1, p.meter.Capacity/2)), storage.Outcome{}
	return p.Take(ctx, &ticket, &out)
}

// Caller collects requests and decides them together. For each request it returns the decision at the same place
// of the previous batch; the first batch is decided one by one.
func (p batchedLimiter) Caller() lab.TakeFunc {
	const size = 32
	turns := make([]storage.BatchItem, size)
	for i := range turns {
		turns[i].Ticket = p.ticket("", 1)
	}
	n, filled := 0, false
	return func(ctx context.Context, key string) (bool, error) {
		t := &turns[n]
		if !filled {
			t.Ticket.Groups[0].Subject = p.hasher.Subject(key)
			err := p.Take(ctx, &t.Ticket, &t.Outcome)
			n = (n + 1) % size
			filled = n == 0
			return t.Outcome.Allowed, err
		}
		allowed, err := t.Outcome.Allowed, t.Err
		t.Ticket.Groups[0].Subject = p.hasher.Subject(key)
		if n++; n == size {
			n = 0
			p.TakeEach(ctx, turns)
		}
		return allowed, err
	}
}

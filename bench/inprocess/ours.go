package inprocess

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/memstore"
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
	hasher penstock.RuleHasher
	meters []*penstock.Meter
}

func openPenstock(limits ...penstock.Limit) (Limiter, error) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	p := &penstockLimiter{store: store, hasher: penstock.NewHasher("bench").Rule("bench", "limit", "key")}
	for _, l := range limits {
		m, err := l.Compile()
		if err != nil {
			return nil, err
		}
		p.meters = append(p.meters, m)
	}
	return p, nil
}

// caller does what a service does for each call: it hashes the key, fills a ticket, and gets a
// full decision into an outcome that it reuses.
func (p *penstockLimiter) caller(share int64) Take {
	charges := make([]penstock.Charge, len(p.meters))
	for i, m := range p.meters {
		charges[i] = penstock.Charge{Meter: m, Cost: max(1, m.Capacity/share)}
	}
	ticket := &penstock.Ticket{Groups: []penstock.Group{{Charges: charges}}}
	out := &penstock.Outcome{}
	ctx := context.Background()
	return func(key string) (bool, error) {
		ticket.Groups[0].Subject = p.hasher.Subject(key)
		err := p.store.Take(ctx, ticket, out)
		return out.Allowed, err
	}
}

// everything as the share of a charge's cost in the capacity makes it cost one.
const everything = 1 << 62

func (p *penstockLimiter) Caller() Take { return p.caller(everything) }

// Warm takes half of the capacity: what is nearly unused is soon as if never seen, and forgotten.
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

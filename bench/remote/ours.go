package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

func ours() []Contestant {
	return []Contestant{
		{Name: Headline, Role: report.Ours, Open: opener(Headline, tokenBucket)},
		{Name: OurCounter, Role: report.Ours, Open: opener(OurCounter, slidingCounter)},
		{Name: OurLog, Role: report.Ours, Bounded: true, Open: opener(OurLog, slidingLog)},
		{Name: OurTwo, Role: report.Ours, Open: opener(OurTwo, tokenBucket, slidingCounter)},
	}
}

// threeLimits is for weighing only.
var threeLimits = Contestant{Name: OurThree, Role: report.Ours, Open: opener(OurThree, tokenBucket, slidingCounter, fixedWindow)}

func tokenBucket(l Limit) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.TokenBucket, Count: l.Count, Window: l.Window}
}

func slidingCounter(l Limit) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: l.Count, Window: l.Window}
}

func fixedWindow(l Limit) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.FixedWindow, Count: l.Count, Window: l.Window}
}

func slidingLog(l Limit) penstock.Limit {
	return penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: min(l.Count, logCount), Window: min(l.Window, logWindow)}
}

// timeout is long, so that a busy machine slows a benchmark down and does not end it.
const timeout = 10 * time.Second

type penstockLimiter struct {
	rule   string
	store  *redisstore.Store
	hasher storage.Hasher
	meters []*algorithm.Meter
	warmth int64 // cost of warming a key
}

// opener opens our store with these limits in one rule with the contestant's name, so that no two contestants
// share keys.
func opener(rule string, limits ...func(Limit) penstock.Limit) func(context.Context, string, Limit) (Limiter, error) {
	return func(_ context.Context, addr string, l Limit) (Limiter, error) {
		p := &penstockLimiter{rule: rule, hasher: storage.NewHasher("bench"), warmth: l.lasting()}
		for _, limit := range limits {
			m, err := limit(l).Compile()
			if err != nil {
				return nil, err
			}
			p.meters = append(p.meters, m)
			p.warmth = min(p.warmth, max(1, m.Capacity/logCount)) // a log keeps an entry per request, whatever its cost
		}
		store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: timeout})
		if err != nil {
			return nil, err
		}
		p.store = store
		return p, nil
	}
}

func (p *penstockLimiter) caller(cost int64) TakeFunc {
	charges := make([]algorithm.Charge, len(p.meters))
	for i, m := range p.meters {
		charges[i] = algorithm.Charge{Meter: m, Cost: cost}
	}
	ticket := &storage.Ticket{Groups: []storage.Group{{Charges: charges}}}
	out := &storage.Outcome{}
	return func(ctx context.Context, key string) (bool, error) {
		ticket.Groups[0].Subject = p.hasher.Subject("bench", p.rule, penstock.Attribute{Name: "key", Value: key})
		err := p.store.Take(ctx, ticket, out)
		return out.Allowed, err
	}
}

func (p *penstockLimiter) Caller() TakeFunc { return p.caller(1) }

func (p *penstockLimiter) Warm(ctx context.Context, key string) error {
	allowed, err := p.caller(p.warmth)(ctx, key)
	if err == nil && !allowed {
		err = fmt.Errorf("warm %q: %d denied", key, p.warmth)
	}
	return err
}

func (p *penstockLimiter) Close() { _ = p.store.Close() } // only closes connections

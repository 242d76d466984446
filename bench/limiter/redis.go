package limiter

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

const (
	// logWindow replaces the window for limiters that remember each request: with a window of a year they would
	// remember the whole benchmark.
	logWindow = 10 * time.Second

	// logCount is the limit of our log: the maximum size of every key's log.
	logCount = 100

	// timeout is long, so that a busy machine slows a benchmark down and does not end it.
	timeout = 10 * time.Second
)

// lasting returns the cost at which a key is warmed, for limiters that drop a key once it has refilled. Of Slow, it
// takes most of an hour to refill.
func (l Limit) lasting() int64 { return max(1, l.Count/10_000) }

func oursOnRedis() []Contestant {
	return []Contestant{
		onRedis(Headline, penstock.TokenBucket),
		onRedis(OurCounter, penstock.SlidingWindowCounter),
		{Name: OurLog, Role: report.Ours, Bounded: true, Open: func(_ context.Context, addr string, l Limit) (lab.Limiter, error) {
			return openOnRedis(OurLog, addr, Limit{Count: min(l.Count, logCount), Window: min(l.Window, logWindow)}, penstock.SlidingWindowLog)
		}},
		onRedis(OurTwo, penstock.TokenBucket, penstock.SlidingWindowCounter),
	}
}

// ThreeLimits is for weighing only.
var ThreeLimits = onRedis(OurThree, penstock.TokenBucket, penstock.SlidingWindowCounter, penstock.FixedWindow)

func onRedis(name string, algorithms ...penstock.Algorithm) Contestant {
	return Contestant{Name: name, Role: report.Ours, Open: func(_ context.Context, addr string, l Limit) (lab.Limiter, error) {
		return openOnRedis(name, addr, l, algorithms...)
	}}
}

type redisLimiter struct {
	*redisstore.Store
	rule   string
	hasher storage.Hasher
	meters []*algorithm.Meter
	warmth int64 // cost of warming a key
}

// openOnRedis opens our store with a limit of each algorithm, in one rule with the contestant's name, so that no two
// contestants share keys.
func openOnRedis(rule, addr string, l Limit, algorithms ...penstock.Algorithm) (lab.Limiter, error) {
	p := &redisLimiter{rule: rule, hasher: storage.NewHasher("bench"), warmth: l.lasting()}
	for _, a := range algorithms {
		m, err := l.with(a).Compile()
		if err != nil {
			return nil, err
		}
		p.meters = append(p.meters, m)
	}
	var err error
	p.Store, err = redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: timeout})
	return p, err
}

func (p *redisLimiter) caller(cost int64) lab.TakeFunc {
	charges := make([]algorithm.Charge, len(p.meters))
	for i, m := range p.meters {
		charges[i] = algorithm.Charge{Meter: m, Cost: cost}
	}
	ticket := &storage.Ticket{Groups: []storage.Group{{Charges: charges}}}
	out := &storage.Outcome{}
	return func(ctx context.Context, key string) (bool, error) {
		ticket.Groups[0].Subject = p.hasher.Subject("bench", p.rule, penstock.Attribute{Name: "key", Value: key})
		err := p.Take(ctx, ticket, out)
		return out.Allowed, err
	}
}

func (p *redisLimiter) Caller() lab.TakeFunc { return p.caller(1) }

func (p *redisLimiter) Warm(ctx context.Context, key string) error {
	allowed, err := p.caller(p.warmth)(ctx, key)
	if err == nil && !allowed {
		err = fmt.Errorf("warm %q: %d denied", key, p.warmth)
	}
	return err
}

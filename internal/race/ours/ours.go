// Package ours enters Penstock's own store in the race. It is apart from it: the race shares no code with the stores.
package ours

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/race"
	"github.com/penstock-io/penstock/redisstore"
)

// Way is the store with the same kind of limit as the other ways: an exact log.
var Way = race.NewWay("Penstock", "EVALSHA of a general script; callers of one node that would wait travel together", open)

func open(_ context.Context, addr string, limit race.Limit) (func(context.Context, string) (bool, error), func(), error) {
	meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: int64(limit.Calls), Window: limit.Window}.Compile()
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	hasher := penstock.NewHasher("")
	take := func(ctx context.Context, key string) (bool, error) {
		subject := hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key})
		ticket := penstock.Ticket{Groups: []penstock.Group{{Subject: subject, Charges: []penstock.Charge{{Meter: meter, Cost: 1}}}}}
		var out penstock.Outcome
		err := store.Take(ctx, &ticket, &out)
		return out.Allowed, err
	}
	return take, func() { store.Close() }, nil
}

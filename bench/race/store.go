package race

import (
	"context"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// penstockWay is Penstock's own store, with the same kind of limit as the other ways, an exact log.
var penstockWay = Method{
	Name: "Penstock",
	What: "EVALSHA of a general script; callers of one node that would wait travel together",
	Open: func(_ context.Context, node Node, limit Limit) (Decider, error) {
		meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: int64(limit.Calls), Window: limit.Window}.Compile()
		if err != nil {
			return nil, err
		}
		store, err := redisstore.Open(redisstore.Options{Addresses: []string{node.Addr}, Timeout: 10 * time.Second})
		if err != nil {
			return nil, err
		}
		return &ownDecider{store, meter, storage.NewHasher("")}, nil
	},
}

type ownDecider struct {
	store  *redisstore.Store
	meter  *algorithm.Meter
	hasher storage.Hasher
}

func (d *ownDecider) Decide(ctx context.Context, key string) (Answer, error) {
	subject := d.hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key})
	ticket := storage.Ticket{Groups: []storage.Group{{Subject: subject, Charges: []algorithm.Charge{{Meter: d.meter, Cost: 1}}}}}
	var out storage.Outcome
	err := d.store.Take(ctx, &ticket, &out)
	return Answer{Allowed: out.Allowed, Trips: 1}, err
}

func (d *ownDecider) Close() { d.store.Close() }

package race

import (
	"context"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Store returns Penstock's own way: its store, opened on a server, with the same kind of limit as the
// other ways, an exact log.
func Store(open func(addr string) (store penstock.Store, end func(), err error)) Way {
	const what = "EVALSHA of a general script; callers of one node that would wait travel together"
	return NewWay("Penstock", what, func(_ context.Context, addr string, limit Limit) (func(context.Context, string) (bool, error), func(), error) {
		meter, err := penstock.Limit{Algorithm: penstock.SlidingWindowLog, Count: int64(limit.Calls), Window: limit.Window}.Compile()
		if err != nil {
			return nil, nil, err
		}
		store, end, err := open(addr)
		if err != nil {
			return nil, nil, err
		}
		hasher := storage.NewHasher("")
		take := func(ctx context.Context, key string) (bool, error) {
			subject := hasher.Subject("race", "one", penstock.Attribute{Name: "key", Value: key})
			ticket := storage.Ticket{Groups: []storage.Group{{Subject: subject, Charges: []algorithm.Charge{{Meter: meter, Cost: 1}}}}}
			var out storage.Outcome
			err := store.Take(ctx, &ticket, &out)
			return out.Allowed, err
		}
		return take, end, nil
	})
}

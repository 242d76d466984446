package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	atOnce   = 64 // leases that are given back concurrently, so that the store can batch them
	attempts = 3  // to give one back; the store does it once, however often it is sent
)

// An unusedLease is what is left of a lease.
type unusedLease struct {
	subject    storage.Subject
	meters     [maxLimits]*algorithm.Meter
	nonce      uint64
	size, left int64
}

// Return gives back the quota that was not spent, and stops leasing: from then on the store decides
// everything. It is for a node that shuts down. now is as in a Ticket.
//
// No quota is both spent and given back, even with concurrent requests. Quota that arrives from the store
// only now, or comes back from a running request that is denied, expires. So does quota that the store has
// not taken back when the context ends; the error says how much and why.
func (s *Store) Return(ctx context.Context, now penstock.Instant) error {
	remnants := s.table.shut(s.instant(now), now != 0)
	var next atomic.Int64
	errs := make([]error, min(atOnce, len(remnants)))
	before := s.kept.Load()
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for n := next.Add(1); n <= int64(len(remnants)); n = next.Add(1) {
				r := &remnants[n-1]
				if err := s.giveBack(ctx, now, r); err != nil {
					s.kept.Add(r.left)
					errs[i] = err // the last error is enough
				} else {
					s.returned.Add(r.left)
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("return permits: %d were not taken back and expire: %w", s.kept.Load()-before, err)
		}
	}
	return nil
}

// giveBack settles a lease for what was spent of it.
func (s *Store) giveBack(ctx context.Context, now penstock.Instant, r *unusedLease) (err error) {
	settlement := storage.Settlement{Now: now, Subject: r.subject, Nonce: r.nonce, Verb: penstock.Settle}
	for _, m := range r.meters {
		if m != nil {
			settlement.Charges = append(settlement.Charges, algorithm.Charge{Meter: m, Cost: r.size - r.left})
		}
	}
	var out storage.SettleOutcome
	for range attempts {
		if err = s.inner.Settle(ctx, &settlement, &out); !errors.Is(err, penstock.ErrUnavailable) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// shut empties all pools permanently, and returns what is left of leases that can be given back.
func (t *table) shut(now penstock.Instant, given bool) (remnants []unusedLease) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for j := range sh.pools {
			p := &sh.pools[j]
			sh.expired += p.expire(now)
			for k := range p.grants { // the store takes back what is younger than ℓ
				if g := &p.grants[k]; g.left > 0 && g.nonce != 0 && now < g.sent+penstock.Instant(p.life()) && p.given == given {
					remnants = append(remnants, unusedLease{p.subject, p.meters, g.nonce, g.size, g.left})
					g.left = 0
				}
			}
			sh.drop(p) // running requests identify it by its owner
		}
		sh.closed, sh.pools = true, nil
		sh.mu.Unlock()
	}
	return remnants
}

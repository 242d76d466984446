package memstore

import (
	"context"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// maxSeveral is the most meters that are decided without a ticket.
const maxSeveral = 4

// severalRule is a rule with several meters, whose charges need no tickets if all their slots exist.
type severalRule struct {
	store  *Store
	meters []*algorithm.Meter
	rule   storage.RuleHasher
}

// Several implements [storage.SeveralStore].
func (s *Store) Several(self storage.Store, rule storage.RuleHasher, meters []*algorithm.Meter) storage.Several {
	if len(meters) > maxSeveral {
		return nil
	}
	for _, m := range meters {
		if s.Single(self, rule, m) == nil {
			return nil
		}
	}
	return &severalRule{s, meters, rule}
}

// Take implements [storage.Several].
func (r *severalRule) Take(ctx context.Context, key string, cost int64, results []algorithm.Result) (now algorithm.Instant, ok bool) {
	if uint64(cost) > algorithm.MaxCount || ctx.Err() != nil {
		return 0, false
	}
	s := r.store
	low, high := r.rule.Words(key)
	var charges [maxSeveral]plainCharge
	first, number := keyOfWords(low, high, r.meters[0].Fingerprint, s.seed)
	sh := &s.shards[number>>s.shift]
	sh.fetch(first.place)
	sh.lock()
	now = s.clock.now()
	taken := true
	for i, m := range r.meters {
		k, _ := keyOfWords(low, high, m.Fingerprint, s.seed)
		if !charges[i].find(sh, k) {
			sh.unlock()
			return 0, false
		}
		f := &results[i]
		f.State, f.Passes = charges[i].weigh(m, now, cost, 0)
		f.Cost = cost
		taken = taken && f.Passes
	}
	for i, m := range r.meters {
		c, f := &charges[i], &results[i]
		f.Taken = taken
		f.State = c.charge(m, cost, f.State, taken)
		c.keep(m.Clear(f.State, now), false)
	}
	sh.unlock()
	return now, true
}

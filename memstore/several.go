package memstore

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// maxSeveral is the most meters that are decided without a ticket.
const maxSeveral = 4

// severalRule is a rule with several meters, whose charges need no tickets if all their slots exist.
type severalRule struct {
	store  *Store
	meters []*algorithm.Meter
	keys   hotKeys
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
	return &severalRule{store: s, meters: meters, keys: hotKeys{rule: rule}}
}

// severalResult is the result of one of several charges.
type severalResult struct {
	state  algorithm.State
	clear  algorithm.Instant
	passes bool // the charge by itself passes
}

// Take implements [storage.Several].
func (r *severalRule) Take(ctx context.Context, key string, cost int64) (strictest algorithm.Decision, ok bool) {
	var results [maxSeveral]severalResult
	now, taken, ok := r.decide(ctx, key, cost, &results)
	if !ok {
		return strictest, false
	}
	var delay time.Duration
	for i, m := range r.meters {
		var d algorithm.Decision
		r.report(&d, i, now, cost, taken, &results[i])
		if charge := (algorithm.Charge{Meter: m, Cost: cost}); !taken {
			charge.Correct(&d)
		}
		if delay = max(delay, d.Delay); i == 0 || d.IsStricter(&strictest, taken) {
			strictest = d
		}
	}
	strictest.Allowed, strictest.Delay = taken, delay
	return strictest, true
}

// decide decides the charges in place. It reports false if one of them has no slot yet.
func (r *severalRule) decide(ctx context.Context, key string, cost int64, results *[maxSeveral]severalResult) (now algorithm.Instant, taken, ok bool) {
	if uint64(cost) > algorithm.MaxCount || ctx.Err() != nil {
		return 0, false, false
	}
	s := r.store
	low, high, entry := r.keys.words(key)
	first, number := keyOfWords(low, high, r.meters[0].Fingerprint, s.seed)
	sh := &s.shards[number>>s.shift]
	isHot := sh.fetch(first.place)
	now = s.clock.now() // before the lock, for which others wait
	if isHot && entry != nil {
		r.keys.remember(entry, key, low, high, now)
	}
	var charges [maxSeveral]plainCharge
	latest := algorithm.Instant(0)
	sh.lock()
	for i, m := range r.meters {
		k, _ := keyOfWords(low, high, m.Fingerprint, s.seed)
		if !charges[i].find(sh, k) {
			sh.unlock()
			return 0, false, false
		}
		latest = max(latest, charges[i].at())
	}
	sh.noteCharge(first)
	if latest > now {
		now = s.clock.now() // the wait for the lock was long
	}
	if taken = r.pass(&charges, now, cost, results); !taken {
		r.deny(&charges, now, cost, results)
	}
	sh.unlock()
	return now, taken, true
}

// pass carries out the charges if all of them pass, as most do. Otherwise it changes nothing and reports false.
func (r *severalRule) pass(charges *[maxSeveral]plainCharge, now algorithm.Instant, cost int64, results *[maxSeveral]severalResult) bool {
	for i, m := range r.meters {
		c, r := &charges[i], &results[i]
		before := unpack(m.Kind, c.at(), c.payload)
		st, f, write, repaired := m.TakeFixed(before, now, cost, 0)
		if !f.Passes {
			return false
		}
		c.date, c.written = dateOf(before, st, repaired), write
		r.state, r.clear, r.passes = st, f.Clear, true // a literal would be copied
	}
	for i, m := range r.meters {
		c := &charges[i]
		if c.written {
			c.payload = pack(m.Kind, results[i].state)
		}
		c.keep(results[i].clear, false)
	}
	return true
}

// deny denies the charges, at least one of which does not pass.
func (r *severalRule) deny(charges *[maxSeveral]plainCharge, now algorithm.Instant, cost int64, results *[maxSeveral]severalResult) {
	for i, m := range r.meters {
		c, f := &charges[i], &results[i]
		c.written = false
		f.state, f.passes = c.weigh(m, now, cost, 0)
		f.state = c.charge(m, cost, f.state, false)
		f.clear = m.Clear(f.state, now)
		c.keep(f.clear, false)
	}
}

// report fills in the decision of a meter.
func (r *severalRule) report(d *algorithm.Decision, i int, now algorithm.Instant, cost int64, taken bool, f *severalResult) {
	m := r.meters[i]
	if taken {
		m.ReportFixed(d, f.state, algorithm.FixedResult{Now: now, Clear: f.clear, Passes: true}, cost, 0)
		return
	}
	m.ReportTo(d, now, &algorithm.Result{State: f.state, Cost: cost, Passes: f.passes})
}

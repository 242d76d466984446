package memstore

import (
	"context"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The most common request is a single charge: one limit of a fixed size, without guards. It is decided here;
// everything else goes through a workspace.

// singleRule is a rule with one meter, whose charges need no tickets.
type singleRule struct {
	store *Store
	meter *algorithm.Meter
	rule  storage.RuleHasher
}

// Single implements [storage.SingleStore].
func (s *Store) Single(self storage.Store, rule storage.RuleHasher, m *algorithm.Meter) storage.Single {
	if self != storage.Store(s) || !m.Kind.Fixed() || isWide(m) || m.CountAll {
		return nil
	}
	return &singleRule{s, m, rule}
}

// Take implements [storage.Single].
func (r *singleRule) Take(ctx context.Context, now algorithm.Instant, key string, cost int64, maxDelay time.Duration) (algorithm.State, algorithm.FixedResult, error) {
	s := r.store
	low, high := r.rule.Words(key)
	k, number := keyOfWords(low, high, r.meter.Fingerprint, s.seed)
	sh := &s.shards[number>>s.shift]
	sh.fetch(k.place) // the slot arrives while the clock is read and the lock is taken
	if uint64(cost) > algorithm.MaxCount || uint64(now) > uint64(algorithm.MaxInstant) || maxDelay < 0 {
		return algorithm.State{}, algorithm.FixedResult{}, invalidSingle(now, r.meter, cost, maxDelay)
	}
	if err := ctx.Err(); err != nil {
		return algorithm.State{}, algorithm.FixedResult{}, ended("take", err)
	}
	given := now != 0
	if !given {
		now = s.clock.now()
	}
	return sh.take(k, now, given, r.meter, cost, maxDelay)
}

// invalidSingle returns the error that a ticket with these numbers has.
func invalidSingle(now algorithm.Instant, m *algorithm.Meter, cost int64, maxDelay time.Duration) error {
	t := storage.Ticket{Now: now, MaxDelay: maxDelay, Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: cost}}}}}
	return t.Validate()
}

// takeSingle decides a ticket with a single charge, at the given instant unless that is 0.
func (s *Store) takeSingle(t *storage.Ticket, out *storage.Outcome, now algorithm.Instant) error {
	g := &t.Groups[0]
	c, given := &g.Charges[0], t.Now != 0
	if now == 0 || given {
		now = s.instant(t)
	}
	k, index := s.locate(&g.Subject, c.Meter)
	st, r, err := s.shards[index].take(k, now, given, c.Meter, c.Cost, t.MaxDelay)
	if err != nil {
		return err
	}
	out.SettleSingle(t, st, r)
	return nil
}

// take decides a single charge. It takes the lock itself, after the caller has read the clock, because others
// wait for the lock. It returns the state after the request, when it decided, which may be later than the given
// instant, and when the state is clear. The caller reports to the client, without the lock.
func (sh *shard) take(k key, now algorithm.Instant, given bool, m *algorithm.Meter, cost int64, maxDelay time.Duration) (algorithm.State, algorithm.FixedResult, error) {
	if !given && sh.denial.turn.Load()&1 != 0 {
		if st, clear, ok := sh.denied(k, now, m, cost, maxDelay); ok {
			return st, algorithm.FixedResult{Now: now, Clear: clear}, nil
		}
	}
	sh.mu.Lock() // without defer, which is a noticeable part of a decision's cost
	at := sh.find(k)
	from := at
	if at == nil && sh.shared > 0 {
		from = sh.findShared(k, m.Fingerprint, sh.memory.store.tagAt(k))
	}
	before := sh.load(from, m.Kind)
	if before.At > now && !given {
		now = sh.memory.store.clock.now() // the wait for the lock was long: the old instant would look like a clock that was set back
	}
	st, passes, repaired := m.Weigh(before, now, cost, maxDelay)
	st, write := charge(m, st, cost, passes, repaired)
	clear := m.Clear(st, now)
	if write && at == nil {
		var err error
		if at, err = sh.placeSingle(k, now, given, m); err != nil {
			sh.unlock()
			return st, algorithm.FixedResult{}, err
		}
	}
	changed := write
	if write {
		sh.save(at, m.Kind, st)
		last := st.At
		if !repaired {
			last = max(last, before.At) // an adopted state is dated within its window
		}
		date(at, last, clear, given)
	} else {
		changed = at.extend(clear, given)
	}
	sh.note(at, changed, !passes && !given)
	sh.mu.Unlock()
	return st, algorithm.FixedResult{Now: now, Clear: clear, Passes: passes}, nil
}

// placeSingle returns the slot for a new state.
func (sh *shard) placeSingle(k key, now algorithm.Instant, given bool, m *algorithm.Meter) (*slot, error) {
	s := sh.memory.store
	t := storage.Ticket{Groups: []storage.Group{{Subject: s.subjectAt(k, m)}}}
	if given {
		t.Now = now
	}
	return sh.placeOne(k, m.Fingerprint, s.tagAt(k), &roomRequest{&t, s.seed, now})
}

// charge returns the weighed state after a request, and whether it must be written.
func charge(m *algorithm.Meter, st algorithm.State, cost int64, taken, repaired bool) (_ algorithm.State, write bool) {
	switch {
	case cost == 0 || !m.CanEver(cost):
		return st, false
	case taken:
		return m.Charge(st, cost), true
	case m.CountDenied:
		return m.ChargeDenied(st, cost), true
	}
	return st, repaired
}

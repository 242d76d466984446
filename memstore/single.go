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
	keys  hotKeys
}

// Single implements [storage.SingleStore].
func (s *Store) Single(self storage.Store, rule storage.RuleHasher, m *algorithm.Meter) storage.Single {
	if self != storage.Store(s) || !m.Kind.Fixed() || isWide(m) || m.CountAll {
		return nil
	}
	return &singleRule{store: s, meter: m, keys: hotKeys{rule: rule}}
}

// Take implements [storage.Single].
func (r *singleRule) Take(ctx context.Context, now algorithm.Instant, key string, cost int64, maxDelay time.Duration) (algorithm.State, algorithm.FixedResult, error) {
	s := r.store
	low, high, entry := r.keys.words(key)
	k, number := keyOfWords(low, high, r.meter.Fingerprint, s.seed)
	sh := &s.shards[number>>s.shift]
	isHot := sh.fetch(k.place) // the slot arrives while the clock is read and the lock is taken
	if uint64(cost) > algorithm.MaxCount || uint64(now) > uint64(algorithm.MaxInstant) || maxDelay < 0 {
		return algorithm.State{}, algorithm.FixedResult{}, invalidSingle(now, r.meter, cost, maxDelay)
	}
	if err := ctx.Err(); err != nil {
		return algorithm.State{}, algorithm.FixedResult{}, ended("take", err)
	}
	given := now != 0
	if !given {
		now = s.clock.now()
		if isHot && entry != nil {
			r.keys.remember(entry, key, low, high, now)
		}
	}
	return sh.take(k, now, given, r.meter, cost, maxDelay)
}

// invalidSingle returns the error that a ticket with these numbers has.
func invalidSingle(now algorithm.Instant, m *algorithm.Meter, cost int64, maxDelay time.Duration) error {
	t := storage.Ticket{Now: now, MaxDelay: maxDelay, Groups: []storage.Group{{Charges: []algorithm.Charge{{Meter: m, Cost: cost}}}}}
	return t.Validate()
}

// isSingle reports whether a ticket is valid and has a single charge of a fixed size, without guards. It checks what
// [storage.Ticket.Validate] does for such a ticket.
func isSingle(t *storage.Ticket) bool {
	if len(t.Groups) != 1 || t.Denied || uint64(t.Now) > uint64(algorithm.MaxInstant) || t.MaxDelay < 0 {
		return false
	}
	g := &t.Groups[0]
	if len(g.Charges) != 1 || g.Guarded() {
		return false
	}
	c, m := &g.Charges[0], g.Charges[0].Meter
	return m != nil && uint64(c.Cost) <= algorithm.MaxCount && m.Kind.Fixed() && !isWide(m) && !c.Overdraw && (!m.CountAll || g.Alone)
}

// A singlePlace is where the state of a single charge belongs.
type singlePlace struct {
	key
	sh *shard
}

// placeOf returns the place of a ticket's single charge.
func (s *Store) placeOf(t *storage.Ticket) singlePlace {
	g := &t.Groups[0]
	k, index := s.locate(&g.Subject, g.Charges[0].Meter)
	return singlePlace{k, &s.shards[index]}
}

// fetchSingle starts to fetch the slots of a ticket. It returns the place of a single charge; other tickets have none.
func (s *Store) fetchSingle(t *storage.Ticket) (place singlePlace) {
	if !isSingle(t) {
		s.fetchAhead(t)
		return place
	}
	place = s.placeOf(t)
	place.sh.fetch(place.place)
	return place
}

// take decides a ticket with a single charge, at its own instant if it brings one.
func (p *singlePlace) take(t *storage.Ticket, out *storage.Outcome, now algorithm.Instant) error {
	given := t.Now != 0
	if given {
		now = t.Now
	}
	c := &t.Groups[0].Charges[0]
	st, r, err := p.sh.take(p.key, now, given, c.Meter, c.Cost, t.MaxDelay)
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
	if !given && sh.turn.Load()&1 != 0 {
		if st, clear, ok := sh.denied(k, now, m, cost, maxDelay); ok {
			return st, algorithm.FixedResult{Now: now, Clear: clear}, nil
		}
	}
	sh.mu.Lock() // without defer, which is a noticeable part of a decision's cost
	at := &sh.hot.slot
	if at.key != k || at.head == 0 {
		if at = sh.find(k); at == nil || at.isSpilled() {
			return sh.takeRare(at, k, now, given, m, cost, maxDelay)
		}
		at = sh.warmUp(at)
	}
	before := unpack(m.Kind, at.at(), at.payload)
	if before.At > now && !given {
		now = sh.memory.store.clock.now() // the wait for the lock was long: the old instant would look like a clock that was set back
	}
	st, r, write, repaired := m.TakeFixed(before, now, cost, maxDelay)
	switch {
	case write:
		at.payload = pack(m.Kind, st)
		date(at, dateOf(before, st, repaired), r.Clear, given)
		sh.forgetDenial()
	case at.extend(r.Clear, given):
		sh.forgetDenial()
	case !r.Passes && !given && at == &sh.hot.slot:
		sh.remember()
	}
	sh.mu.Unlock()
	return st, r, nil
}

// dateOf returns when the state after a charge is dated. An adopted state is dated within its window.
func dateOf(before, after algorithm.State, repaired bool) algorithm.Instant {
	if repaired {
		return after.At
	}
	return max(before.At, after.At)
}

// takeRare is take for a key that has no slot, or one with a list. It gives up the lock.
func (sh *shard) takeRare(at *slot, k key, now algorithm.Instant, given bool, m *algorithm.Meter, cost int64, maxDelay time.Duration) (algorithm.State, algorithm.FixedResult, error) {
	sh.coolDown()
	defer sh.unlock()
	from := at
	if at == nil && sh.shared > 0 {
		from = sh.findShared(k, sharedFingerprint(m), sh.memory.store.tagAt(k))
	}
	before := sh.load(from, m.Kind)
	if before.At > now && !given {
		now = sh.memory.store.clock.now()
	}
	st, r, write, repaired := m.TakeFixed(before, now, cost, maxDelay)
	if !write {
		at.extend(r.Clear, given)
		return st, r, nil
	}
	if at == nil {
		var err error
		if at, err = sh.placeSingle(k, now, given, m); err != nil {
			return st, algorithm.FixedResult{}, err
		}
	}
	sh.save(at, m.Kind, st)
	date(at, dateOf(before, st, repaired), r.Clear, given)
	return st, r, nil
}

// placeSingle returns the slot for a new state.
func (sh *shard) placeSingle(k key, now algorithm.Instant, given bool, m *algorithm.Meter) (*slot, error) {
	s := sh.memory.store
	t := storage.Ticket{Groups: []storage.Group{{Subject: s.subjectAt(k, m.Fingerprint)}}}
	if given {
		t.Now = now
	}
	return sh.placeOne(k, sharedFingerprint(m), s.tagAt(k), &roomRequest{ticket: &t, seed: s.seed, now: now})
}

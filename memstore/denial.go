package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A denial is a copy of the slot whose key was last denied twice in a row in its shard. A denial usually writes
// nothing. So until something in the shard changes, further requests for the key are decided from the copy, without
// the lock: a flood that is denied does not make processors wait for each other.
type denial struct {
	turn    atomic.Uint64 // odd while the copy is true
	place   atomic.Uint64
	name    atomic.Uint64
	head    atomic.Uint64
	payload atomic.Uint64
	last    uint64 // the place of the key that was last denied; it needs the lock
}

// denied decides a charge that is denied and writes nothing, without the lock. It reports false if the charge may
// not be one. A change ends the turn of the copy before it gives up the lock. So when this reads the turn for the
// second time, no change since the copy was made has returned yet.
func (sh *shard) denied(k key, now algorithm.Instant, m *algorithm.Meter, cost int64, maxDelay time.Duration) (st algorithm.State, clear algorithm.Instant, ok bool) {
	d := &sh.denial
	turn := d.turn.Load()
	if turn&1 == 0 || d.place.Load() != k.place || d.name.Load() != k.name {
		return st, 0, false
	}
	s := slot{key: k, head: d.head.Load(), payload: d.payload.Load()}
	if d.turn.Load() != turn || s.at() > now {
		return st, 0, false
	}
	st, passes, repaired := m.Weigh(unpack(m.Kind, s.at(), s.payload), now, cost, maxDelay)
	st, write := charge(m, st, cost, passes, repaired)
	if passes || write {
		return st, 0, false
	}
	clear = m.Clear(st, now)
	return st, clear, !s.extend(clear, false)
}

// note keeps the copy up to date after a single charge. The slot may be nil.
func (sh *shard) note(s *slot, changed, denied bool) {
	switch {
	case changed:
		sh.forgetDenial()
	case denied && s != nil:
		sh.remember(s)
	}
}

// remember notes that the key of a slot was denied and nothing was written.
func (sh *shard) remember(s *slot) {
	d := &sh.denial
	if d.last != s.place || s.isSpilled() {
		d.last = s.place
		return
	}
	sh.forgetDenial()
	d.place.Store(s.place)
	d.name.Store(s.name)
	d.head.Store(s.head)
	d.payload.Store(s.payload)
	d.turn.Add(1)
}

// forgetDenial ends the turn of the copy.
func (sh *shard) forgetDenial() {
	if sh.denial.turn.Load()&1 != 0 {
		sh.denial.turn.Add(1)
	}
}

// unlock gives up the lock after what may have been a change.
func (sh *shard) unlock() {
	sh.forgetDenial()
	sh.mu.Unlock()
}

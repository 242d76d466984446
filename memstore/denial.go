package memstore

import (
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A denial is a copy of a hot slot whose key was denied. A denial usually writes nothing. So until something in the
// shard changes, further requests for the key are decided from the copy, without the lock: a flood that is denied
// does not make processors wait for each other.
type denial struct {
	place   atomic.Uint64
	name    atomic.Uint64
	head    atomic.Uint64
	payload atomic.Uint64
}

// denied decides a charge that is denied and writes nothing, without the lock. It reports false if the charge may
// not be one. A change ends the turn of the copy before it gives up the lock. So when this reads the turn for the
// second time, no change since the copy was made has returned yet.
func (sh *shard) denied(k key, now algorithm.Instant, m *algorithm.Meter, cost int64, maxDelay time.Duration) (st algorithm.State, clear algorithm.Instant, ok bool) {
	d := &sh.denial
	turn := sh.turn.Load()
	if turn&1 == 0 || d.place.Load() != k.place || d.name.Load() != k.name {
		return st, 0, false
	}
	s := slot{key: k, head: d.head.Load(), payload: d.payload.Load()}
	if sh.turn.Load() != turn || s.at() > now {
		return st, 0, false
	}
	st, r, write, _ := m.TakeFixed(unpack(m.Kind, s.at(), s.payload), now, cost, maxDelay)
	if r.Passes || write {
		return st, 0, false
	}
	return st, r.Clear, !s.extend(r.Clear, false)
}

// remember keeps a copy of the hot slot, whose key was denied.
func (sh *shard) remember() {
	d, s := &sh.denial, &sh.hot
	sh.forgetDenial()
	d.place.Store(s.place)
	d.name.Store(s.name)
	d.head.Store(s.head)
	d.payload.Store(s.payload)
	sh.turn.Add(1)
}

// forgetDenial ends the turn of the copy.
func (sh *shard) forgetDenial() {
	if sh.turn.Load()&1 != 0 {
		sh.turn.Add(1)
	}
}

package memstore

import (
	"time"

	"github.com/penstock-io/penstock/algorithm"
)

// A plainCharge is a charge that is decided in place, on a slot that exists.
type plainCharge struct {
	*slot
	date     algorithm.Instant // of the state, before the request and then after it
	repaired bool
	written  bool
}

// find finds the slot of a key, and reports whether there is one that holds the whole state.
func (c *plainCharge) find(sh *shard, k key) bool {
	c.slot = sh.find(k)
	return c.slot != nil && !c.isSpilled()
}

// weigh brings the state up to now and reports whether the cost passes. It changes nothing.
func (c *plainCharge) weigh(m *algorithm.Meter, now algorithm.Instant, cost int64, maxDelay time.Duration) (st algorithm.State, passes bool) {
	c.date = c.at()
	st, passes, c.repaired = m.Weigh(unpack(m.Kind, c.date, c.payload), now, cost, maxDelay)
	return st, passes
}

// charge carries out a weighed charge, admitted or denied, and returns the state after it.
func (c *plainCharge) charge(m *algorithm.Meter, cost int64, st algorithm.State, taken bool) algorithm.State {
	if cost == 0 || !m.CanEver(cost) || !(taken || c.repaired || m.CountDenied) {
		return st
	}
	switch {
	case taken:
		st = m.Charge(st, cost)
	case m.CountDenied:
		st = m.ChargeDenied(st, cost)
	}
	c.payload, c.written = pack(m.Kind, st), true
	c.date = dateOf(algorithm.State{At: c.date}, st, c.repaired)
	return st
}

// keep dates what was written, and keeps what was only read for as long as its limit needs.
func (c *plainCharge) keep(clear algorithm.Instant, isGiven bool) {
	if c.written {
		date(c.slot, c.date, clear, isGiven)
	} else {
		c.extend(clear, isGiven)
	}
}

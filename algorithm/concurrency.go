package algorithm

import "sort"

// A concurrency limit hands out permits, called leases here. A permit that is not released expires after the
// limit's window, so a client that died frees its permit. A request takes one permit regardless of its cost.

// LeaseWeight is the decision for one more permit.
type LeaseWeight struct {
	Passes   bool
	Repaired bool // some permits expire later than this limit could have set
	Live     int64
}

// WeighLeases reports whether one more permit may be taken. Permits are ordered by expiry. A ticket whose
// nonce already holds a permit passes: it renews that permit.
func (m *Meter) WeighLeases(leases []Entry, now Instant, cost int64, nonce uint64) LeaseWeight {
	live := leases[expired(leases, now):]
	w := LeaseWeight{Live: int64(len(live))}
	w.Repaired = len(live) > 0 && live[len(live)-1].At > now+Instant(m.Window)
	switch {
	case cost == 0:
		w.Passes = w.Live <= m.Count
	default:
		w.Passes = w.Live < m.Count || heldBy(live, nonce) >= 0
	}
	return w
}

// TakeLease drops expired permits and adds or renews the one of the nonce. It may need room for one more.
func (m *Meter) TakeLease(leases []Entry, now Instant, nonce uint64) []Entry {
	leases = m.MendLeases(leases, now)
	leases = leases[:copy(leases, leases[expired(leases, now):])]
	if i := heldBy(leases, nonce); i >= 0 {
		leases = append(leases[:i], leases[i+1:]...)
	}
	return append(leases, Entry{At: now + Instant(m.Window), Value: int64(nonce)})
}

// MendLeases caps expiries that a wrong clock wrote at the latest this limit could set.
func (m *Meter) MendLeases(leases []Entry, now Instant) []Entry {
	latest := now + Instant(m.Window)
	for i := len(leases) - 1; i >= 0 && leases[i].At > latest; i-- {
		leases[i].At = latest
	}
	return leases
}

// LeaseState summarises the permits after a request: see [State].
func (m *Meter) LeaseState(leases []Entry, now Instant, cost int64, passes bool) State {
	live := leases[expired(leases, now):]
	if len(live) == 0 {
		return State{}
	}
	latest := now + Instant(m.Window)
	s := State{At: min(live[len(live)-1].At, latest), Used: int64(len(live))}
	if !passes {
		over := int64(len(live)) - m.Count
		if cost == 0 {
			over-- // a peek passes at the limit, a request needs a free permit below it
		}
		s.FreeAt = min(live[over].At, latest)
	}
	return s
}

func expired(leases []Entry, now Instant) int {
	return sort.Search(len(leases), func(i int) bool { return leases[i].At > now })
}

func heldBy(leases []Entry, nonce uint64) int {
	for i, l := range leases {
		if uint64(l.Value) == nonce {
			return i
		}
	}
	return -1
}

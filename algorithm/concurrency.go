package algorithm

import "sort"

// A concurrency limit hands out leases. A lease that is not given back ends by itself after the
// limit's window, so a caller that died frees its place. A call takes one lease whatever it costs.

// LeaseWeight is what a set of leases says to a call.
type LeaseWeight struct {
	Passes   bool
	Repaired bool // some expiries lie further ahead than this limit could have set them
	Live     int64
}

// WeighLeases tells whether one more lease may be taken. Leases are ordered by expiry. A ticket
// whose nonce holds a lease already passes: it takes the same one anew.
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

// TakeLease drops what has expired and adds or renews the lease; it may need room for one more.
func (m *Meter) TakeLease(leases []Entry, now Instant, nonce uint64) []Entry {
	leases = m.MendLeases(leases, now)
	leases = leases[:copy(leases, leases[expired(leases, now):])]
	if i := heldBy(leases, nonce); i >= 0 {
		leases = append(leases[:i], leases[i+1:]...)
	}
	return append(leases, Entry{At: now + Instant(m.Window), Value: int64(nonce)})
}

// MendLeases brings expiries that a wrong clock wrote back to the latest this limit could set.
func (m *Meter) MendLeases(leases []Entry, now Instant) []Entry {
	latest := now + Instant(m.Window)
	for i := len(leases) - 1; i >= 0 && leases[i].At > latest; i-- {
		leases[i].At = latest
	}
	return leases
}

// LeaseState sums up the leases after a call: see [State].
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
			over-- // a peek passes at the limit, a call needs a free place below it
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

package lease

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	maxLimits = 4 // of a group that is leased

	partOf   = 100 // ℓ is this fraction of a window
	maxLife  = int64(time.Second / time.Microsecond)
	minLife  = int64(5 * time.Millisecond / time.Microsecond) // with a shorter life, too many replies come too late
	fewCalls = 8                                              // a lease that is enough for fewer requests is not worth it
	travel   = 250 * time.Millisecond                         // time for a give-back to arrive
	share    = 8                                              // one lease takes at most this fraction of what is left
)

// leasable reports whether a lease can decide the group of a valid ticket: it has only charges, all of one
// cost, which a store does not have to see if the request is denied elsewhere.
func leasable(g *storage.Group) bool {
	if !g.Leased || g.Penalty != nil || g.Reserve != 0 || g.Remembers() || len(g.Charges) > maxLimits {
		return false
	}
	cost := g.Charges[0].Cost
	if cost == 0 {
		return false
	}
	for i := range g.Charges {
		c := &g.Charges[i]
		if c.Cost != cost || c.Overdraw || c.Meter.CountDenied || c.Meter.Window < partOf*minLife {
			return false
		}
		switch c.Meter.Kind {
		case algorithm.KindWindow, algorithm.KindCalendar, algorithm.KindCounter, algorithm.KindBucket:
		default:
			return false
		}
	}
	return true
}

// life returns ℓ in µs: that of the shortest window. A calendar meter's Window may be longer than its periods,
// but a hundredth of the shortest one is more than maxLife.
func (p *pool) life() int64 {
	life := maxLife
	for _, m := range p.meters {
		if m != nil {
			life = min(life, m.Window/partOf)
		}
	}
	return life
}

// reserve returns how long the store remembers a lease, so that it can be given back: the life of its quota,
// and some time for the message to arrive.
func reserve(life int64) time.Duration {
	return time.Duration(life)*time.Microsecond + travel
}

// longestValid returns how long quota of a lease can be spent at most, in µs. Quota of windows alone may be spent
// until they end, because when in a window it is spent does not matter; it still ends after maxLife, for an
// operator who resets the key on another node.
func longestValid(g *storage.Group, life int64) int64 {
	for i := range g.Charges {
		if !isWindow(g.Charges[i].Meter) {
			return life
		}
	}
	return maxLife
}

// validFor returns how long quota of a lease can be spent, in µs. Quota does not outlive its windows, whose end
// the decisions contain. It ends a microsecond early, because two clocks were rounded down.
func validFor(g *storage.Group, life int64, decisions []penstock.Decision) int64 {
	valid := longestValid(g, life)
	for i := range decisions {
		if isWindow(g.Charges[i].Meter) {
			valid = min(valid, decisions[i].ResetAfter.Microseconds()-1)
		}
	}
	return valid
}

func isWindow(m *algorithm.Meter) bool {
	return m.Kind == algorithm.KindWindow || m.Kind == algorithm.KindCalendar
}

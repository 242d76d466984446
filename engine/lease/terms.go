package lease

import (
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	maxLimits = 4 // of a group that is leased

	partOf   = 100 // ℓ is one part in so many of a window
	maxLife  = int64(time.Second / time.Microsecond)
	minLife  = int64(5 * time.Millisecond / time.Microsecond) // below that a reply comes too late for too many
	fewCalls = 8                                              // that a lease must be enough for, or it is not worth it
	travel   = 250 * time.Millisecond                         // for what is given back
	share    = 8                                              // of what is left, one lease takes at most one part in so many
)

// leasable tells whether permits can decide the group of a valid ticket: nothing but charges of one
// cost, which a store does not have to see when the call is denied elsewhere.
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

// lifeOf returns ℓ in µs: that of the shortest window. A calendar meter's Window is longer than
// its periods may be, but a hundredth of the shortest one is more than maxLife.
func lifeOf(g *storage.Group) int64 {
	life := maxLife
	for i := range g.Charges {
		life = min(life, g.Charges[i].Meter.Window/partOf)
	}
	return life
}

// reserve is how long the store remembers a lease, so that it can be given back: as long as its permits
// live, and some time to travel.
func reserve(life int64) time.Duration {
	return time.Duration(life)*time.Microsecond + travel
}

// within cuts a life down so that the permits do not outlive their windows, of which the decisions
// about them tell the end. It ends a microsecond early, as two clocks were rounded down.
func within(life int64, g *storage.Group, decisions []penstock.Decision) int64 {
	for i := range decisions {
		if k := g.Charges[i].Meter.Kind; k == algorithm.KindWindow || k == algorithm.KindCalendar {
			life = min(life, decisions[i].ResetAfter.Microseconds()-1)
		}
	}
	return life
}

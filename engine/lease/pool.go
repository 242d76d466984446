package lease

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A pool is what this node holds of one subject's limits, and what it knows of them. Its shard's
// lock guards it.
type pool struct {
	meters  [maxLimits]*algorithm.Meter // nil where there are fewer
	subject storage.Subject
	owner   uint64 // a number that no other use of this memory has; 0: free
	asked   uint64 // when last, in lookups of the shard
	given   bool   // instants are tickets' own, not of this node's clock

	grants [2]grant // the older first

	// A fetch is under way until then. If its reply is later, the permits are of no use any more.
	fetch            uint64
	fetched, waiting penstock.Instant // from, to

	lately pace // per µs
	spent  pace // since
	since  penstock.Instant

	room  int64                      // that the store had left when it last spoke
	known [maxLimits]algorithm.State // as it told them then
}

// A grant is the permits of one lease. Sent and until are instants of the clock that the ticket went
// by, at is the store's.
type grant struct {
	number      uint64
	nonce       uint64 // under which the store remembers it; 0: it does not
	size, left  int64
	sent, until penstock.Instant
	at          penstock.Instant
}

// A pace is how much passes: many calls make a key hot, their cost says how many permits they need.
type pace struct{ calls, cost float64 }

func (p *pace) add(calls, cost int64) {
	p.calls += float64(calls)
	p.cost += float64(cost)
}

// storeTime is what the store's clock says now, or a little later: its answer was on the way.
func (g *grant) storeTime(now penstock.Instant) penstock.Instant { return g.at + now - g.sent }

// expire drops permits that are over and returns how many.
func (p *pool) expire(now penstock.Instant) (lost int64) {
	for i := range p.grants {
		if g := &p.grants[i]; now >= g.until {
			lost += g.left
			g.left = 0
		}
	}
	return lost
}

// draw takes the cost out of a grant, of the one that ends first if it can; what is over was dropped.
// It returns nil if none has as much, or time has stepped back to before it was sent.
func (p *pool) draw(now penstock.Instant, cost int64) *grant {
	for i := range p.grants {
		if g := &p.grants[i]; g.left >= cost && g.sent <= now {
			g.left -= cost
			p.spent.add(1, cost)
			return g
		}
	}
	return nil
}

// putBack returns what was drawn of a grant. It tells whether the grant is still there.
func (p *pool) putBack(number uint64, cost int64) bool {
	p.spent.add(-1, -cost)
	for i := range p.grants {
		if g := &p.grants[i]; g.number == number {
			g.left += cost
			return true
		}
	}
	return false
}

// ahead returns how many permits are to be taken now; 0 while there are enough, while they are
// being fetched, and where a lease would not be worth it.
func (p *pool) ahead(now penstock.Instant, life, cost int64) int64 {
	if p.fetch != 0 && p.fetched <= now && now < p.waiting {
		return 0
	}
	newest := &p.grants[1]
	low := (p.grants[0].left+newest.left)*4 <= newest.size
	late := now < newest.sent || now-newest.sent >= (newest.until-newest.sent)*3/4
	if !low && !late {
		return 0
	}
	p.remember(now, life)
	// At a steady pace the next lease is due after three quarters of a life.
	due := float64(life) * 3 / 4
	n := int64(min(p.lately.cost*due, float64(p.room/share)))
	if p.lately.calls*due < fewCalls || n < fewCalls*cost {
		return 0
	}
	return n
}

// remember brings the pace up to now: an average over the past that fades with two lives.
func (p *pool) remember(now penstock.Instant, life int64) {
	fade := 2 * float64(life)
	span := fade + float64(max(0, now-p.since))
	p.lately.calls = max(0, p.lately.calls*fade+p.spent.calls) / span
	p.lately.cost = max(0, p.lately.cost*fade+p.spent.cost) / span
	p.spent, p.since = pace{}, now
}

// learn keeps what the store said of the group.
func (p *pool) learn(decisions []penstock.Decision, states []algorithm.State) {
	p.room = decisions[0].Remaining
	for i := range decisions {
		p.room = min(p.room, decisions[i].Remaining)
	}
	copy(p.known[:], states)
}

// add takes in the permits of a lease and returns how many others are lost by that: those of the lease
// before the last, of which there are no more than one call could not use.
func (p *pool) add(g grant) (lost int64) {
	lost = p.grants[0].left
	p.grants[0], p.grants[1] = p.grants[1], g
	return lost
}

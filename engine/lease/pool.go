package lease

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A pool is the quota that this node holds for one subject's limits, and what it knows of them. Its shard's
// lock guards it.
type pool struct {
	meters  [maxLimits]*algorithm.Meter // nil for those beyond the last
	subject storage.Subject
	owner   uint64 // a number that is unique to this use of the memory; 0: free
	asked   uint64 // last use, in lookups of the shard
	given   bool   // instants are the tickets' own, not of this node's clock
	fetches int32  // without an answer yet, including those that it no longer waits for

	grants [2]grant // the older one first

	// A fetch is running until then. If its reply comes later, the quota has expired, and so it has if a window
	// ends before.
	fetch            uint64
	fetched, waiting penstock.Instant // from, to

	recent usageRate // per µs
	spent  usageRate // since
	since  penstock.Instant

	room  int64                      // what the store had left in its last answer
	known [maxLimits]algorithm.State // as of that answer
}

// A grant is the quota of one lease. Sent and until are instants of the ticket's clock, at is one of the
// store's.
type grant struct {
	number      uint64
	nonce       uint64 // under which the store remembers it; 0: it does not
	size, left  int64
	sent, until penstock.Instant
	at          penstock.Instant
}

// A usageRate is a rate of requests and of their cost: many requests make a key hot, and their cost says how much
// quota they need.
type usageRate struct{ calls, cost float64 }

func (p *usageRate) add(calls, cost int64) {
	p.calls += float64(calls)
	p.cost += float64(cost)
}

// storeTime returns the time of the store's clock, or a little later by the time its answer took.
func (g *grant) storeTime(now penstock.Instant) penstock.Instant { return g.at + now - g.sent }

// expire drops expired quota and returns how much.
func (p *pool) expire(now penstock.Instant) (lost int64) {
	for i := range p.grants {
		if g := &p.grants[i]; now >= g.until {
			lost += g.left
			g.left = 0
		}
	}
	return lost
}

// draw takes the cost from a grant, preferably from the one that ends first. Expired grants were dropped. It
// returns nil if none has enough, or if the clock has stepped back to before it was sent.
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

// putBack returns quota to a grant, and reports whether the grant still exists.
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

// fetching reports whether a fetch is running.
func (p *pool) fetching(now penstock.Instant) bool {
	return p.fetch != 0 && p.fetched <= now && now < p.waiting
}

// endFetch ends a fetch that was answered or failed.
func (p *pool) endFetch(number uint64) {
	p.fetches--
	if p.fetch == number {
		p.fetch = 0
	}
}

// holds reports whether there is quota that has not expired.
func (p *pool) holds(now penstock.Instant) bool {
	for i := range p.grants {
		if g := &p.grants[i]; g.left > 0 && now < g.until {
			return true
		}
	}
	return false
}

// leaseAhead returns how much quota to lease now; 0 if there is enough, if it is being fetched, or if a lease
// would not be worth it.
func (p *pool) leaseAhead(now penstock.Instant, life, cost int64) int64 {
	if p.fetching(now) {
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
	n := int64(min(p.recent.cost*due, float64(p.room/share)))
	if p.recent.calls*due < fewCalls || n < fewCalls*cost {
		return 0
	}
	return n
}

// remember brings the pace up to now: a moving average that decays over two lives.
func (p *pool) remember(now penstock.Instant, life int64) {
	fade := 2 * float64(life)
	span := fade + float64(max(0, now-p.since))
	p.recent.calls = max(0, p.recent.calls*fade+p.spent.calls) / span
	p.recent.cost = max(0, p.recent.cost*fade+p.spent.cost) / span
	p.spent, p.since = usageRate{}, now
}

// learn keeps the store's answer for the group.
func (p *pool) learn(decisions []penstock.Decision, states []algorithm.State) {
	p.room = decisions[0].Remaining
	for i := range decisions {
		p.room = min(p.room, decisions[i].Remaining)
	}
	copy(p.known[:], states)
}

// add adds the quota of a lease and returns how much other quota is lost by that: the rest of the smaller of two
// leases. That is less than one request needs, unless an earlier fetch was given up and is answered after all.
func (p *pool) add(g grant) (lost int64) {
	if p.grants[0].left > p.grants[1].left {
		p.grants[0], p.grants[1] = p.grants[1], p.grants[0]
	}
	lost = p.grants[0].left
	p.grants[0], p.grants[1] = p.grants[1], g
	return lost
}

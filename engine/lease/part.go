package lease

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A part is the plan for one group of a ticket. The zero part leaves the group to the store.
type part struct {
	shard *shard // nil: a lease cannot decide the group
	pool  *pool
	owner uint64 // of the pool, which may have changed by the time the store answers

	grant uint64           // the grant that covers the group; 0: none
	at    penstock.Instant // when it was charged
	now   penstock.Instant // by the store's clock
	known [maxLimits]algorithm.State

	fetch uint64 // names the lease to be taken
	ahead int64  // its quota; 0: none
	life  int64  // in µs
	nonce uint64 // under which it is remembered; 0: it is not
}

func (p *part) covered() bool { return p.grant != 0 }

// cover draws quota for a group, and checks whether it is time for a lease.
func (p *part) cover(table *table, t *storage.Ticket, group int, now penstock.Instant, mayFetch bool) {
	g := &t.Groups[group]
	cost := g.Charges[0].Cost
	sh, set := table.of(&g.Subject)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.closed {
		return
	}
	pool := sh.find(set, table.sets, g, now, t.Now != 0)
	p.shard, p.pool, p.owner = sh, pool, pool.owner
	sh.expired += pool.expire(now)
	if from := pool.draw(now, cost); from != nil {
		sh.leased++
		p.grant, p.at, p.now = from.number, from.at, from.storeTime(now)
		p.known = pool.known
	}
	if !mayFetch {
		return
	}
	p.life = pool.life()
	if p.ahead = pool.leaseAhead(now, p.life, cost); p.ahead > 0 {
		p.fetch = sh.next()
		pool.fetch, pool.fetched, pool.waiting = p.fetch, now, now+penstock.Instant(longestValid(g, p.life))
		pool.fetches++
	}
}

// lock locks and returns the pool, and reports whether it still has the same owner.
func (p *part) lock() (_ *pool, same bool) {
	p.shard.mu.Lock()
	return p.pool, p.pool.owner == p.owner
}

// learn keeps the store's answer for the group. A denial is not firm while the node has quota, or fetches it: it
// may have been taken before the store denied this request, and has to be spent.
func (p *part) learn(g *storage.Group, out *storage.GroupOutcome, decisions []penstock.Decision, states []algorithm.State, now penstock.Instant) {
	pool, same := p.lock()
	defer p.shard.mu.Unlock()
	if !same {
		return
	}
	pool.learn(decisions, states)
	if out.Taken {
		pool.spent.add(1, g.Charges[0].Cost)
	}
	if pool.fetches > 0 || pool.holds(now) {
		out.FirmUntil = 0
	}
}

// collect adds the lease to the pool, if the store granted it and the pool still has the same owner.
func (p *part) collect(g *storage.Group, granted bool, decisions []penstock.Decision, states []algorithm.State, sent, now, said penstock.Instant) {
	pool, same := p.lock()
	defer p.shard.mu.Unlock()
	if granted {
		p.shard.permits += p.ahead
	}
	if same {
		pool.endFetch(p.fetch)
		pool.learn(decisions, states)
		p.known = pool.known // also for the request that brought it
	}
	if !granted {
		return
	}
	until := sent + penstock.Instant(validFor(g, p.life, decisions))
	if !same || now >= until {
		p.shard.expired += p.ahead
		if now-sent >= penstock.Instant(p.life) && same {
			pool.recent = usageRate{} // the store is too slow for leases: start again with little
		}
		return
	}
	p.shard.expired += pool.add(grant{number: p.fetch, nonce: p.nonce, size: p.ahead, left: p.ahead, sent: sent, until: until, at: said})
}

// fail ends a fetch that the store did not answer.
func (p *part) fail() {
	pool, same := p.lock()
	defer p.shard.mu.Unlock()
	if same {
		pool.endFetch(p.fetch)
	}
}

// giveBack returns the quota to the grant it came from, or drops it if that is gone.
func (p *part) giveBack(cost int64) {
	pool, same := p.lock()
	defer p.shard.mu.Unlock()
	p.shard.leased--
	if !same || !pool.putBack(p.grant, cost) {
		p.shard.expired += cost
	}
}

// report fills in the decisions of a group that a lease decided, as the store would if no other node had
// asked since.
func (p *part) report(g *storage.Group, taken bool, decisions []penstock.Decision, states []algorithm.State) {
	for j := range decisions {
		c, d := &g.Charges[j], &decisions[j]
		states[j], _, _ = c.Meter.Weigh(p.known[j], p.now, 0, 0)
		c.Meter.ReportTo(d, p.now, &algorithm.Result{State: states[j], Cost: c.Cost, Passes: true, Taken: taken})
		if taken {
			d.Receipt.At = p.at
		}
	}
}

package lease

import (
	"encoding/binary"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

const (
	shards = 64
	ways   = 8 // pools in a set
)

// A table holds the pools: a fixed number, in small sets. A new pool replaces the least recently used one of
// its set. Subjects are keyed hashes, so a client cannot choose whose pool it displaces.
type table struct {
	sets   uint64 // of each shard
	shards [shards]shard
}

type shard struct {
	mu     sync.Mutex
	pools  []pool // nil until the first use
	asked  uint64
	number uint64 // the last one used for owners, grants and fetches

	leased, permits, expired int64

	closed bool // there are no more pools

	_ [48]byte // puts a hot key's lock on its own cache line
}

// of returns the shard of a subject, and the start of its set.
func (t *table) of(s *storage.Subject) (_ *shard, set uint64) {
	n := binary.LittleEndian.Uint64(s[8:])
	return &t.shards[n%shards], n / shards % t.sets * ways
}

// find returns the group's pool. A pool with instants of the other kind starts empty, and so does one whose
// limits now have other numbers: a lease is spent only under the limits it was taken under. The caller holds
// the lock, and the shard is not closed.
func (sh *shard) find(set, sets uint64, g *storage.Group, now penstock.Instant, given bool) *pool {
	if sh.pools == nil {
		sh.pools = make([]pool, sets*ways)
	}
	sh.asked++
	pools := sh.pools[set : set+ways]
	victim := &pools[0]
	for i := range pools {
		p := &pools[i]
		if p.owner != 0 && p.is(g) {
			if p.given != given || !p.unchanged(g) {
				victim = p
				break
			}
			p.asked = sh.asked
			return p
		}
		if p.asked < victim.asked {
			victim = p
		}
	}
	sh.drop(victim)
	*victim = pool{subject: g.Subject, owner: sh.next(), asked: sh.asked, given: given, since: now}
	for i := range g.Charges {
		victim.meters[i] = g.Charges[i].Meter
	}
	return victim
}

// is reports whether the pool belongs to the group's counters.
func (p *pool) is(g *storage.Group) bool {
	if p.subject != g.Subject {
		return false
	}
	for i, m := range p.meters {
		if (m == nil) != (i >= len(g.Charges)) || m != nil && m.Fingerprint != g.Charges[i].Meter.Fingerprint {
			return false
		}
	}
	return true
}

// unchanged reports whether the group's limits are those that the pool's quota was leased under.
func (p *pool) unchanged(g *storage.Group) bool {
	for i := range g.Charges {
		if now := g.Charges[i].Meter; p.meters[i] != now && p.meters[i].Constants != now.Constants {
			return false
		}
	}
	return true
}

func (sh *shard) next() uint64 {
	sh.number++
	return sh.number
}

// drop empties a pool.
func (sh *shard) drop(p *pool) {
	sh.expired += p.grants[0].left + p.grants[1].left
	*p = pool{}
}

// forget drops the pools of a subject.
func (t *table) forget(s *storage.Subject) {
	sh, set := t.of(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.pools == nil {
		return
	}
	for i := range sh.pools[set : set+ways] {
		if p := &sh.pools[set+uint64(i)]; p.owner != 0 && p.subject == *s {
			sh.drop(p)
		}
	}
}

func (t *table) stats() (st Stats) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		st.Leased += sh.leased
		st.Permits += sh.permits
		st.Expired += sh.expired
		sh.mu.Unlock()
	}
	return st
}

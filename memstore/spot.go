package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// A spot is where a ticket looks for a slot. Slots move, so it is found anew by its key.
type spot struct {
	key
	sh      *shard
	missing bool  // no slot was found
	wanted  bool  // it may be written
	block   block // for a list that is new, until it has a slot
}

func (p *spot) slot() *slot { return p.sh.find(p.key) }

// look is slot, noting whether there is one.
func (p *spot) look() *slot {
	s := p.slot()
	p.missing = s == nil
	return s
}

// slotApart returns the slot of a call or a reservation, which is added if there is none. Room
// must have been made.
func (p *spot) slotApart() *slot {
	if s := p.slot(); s != nil {
		return s
	}
	return p.sh.add(slot{key: p.key, head: apart})
}

// holdBlock sees to it that a list of n entries can take the place of what is there.
func (p *spot) holdBlock(n int, r *room) error {
	p.sh.needLists()
	if s := p.slot(); s != nil && s.isSpilled() && n <= cap(p.sh.list(s)) {
		return nil
	}
	if p.block = p.sh.allocEvicting(n, r); p.block == 0 {
		return p.sh.full()
	}
	return nil
}

// entries makes the slot a list of n entries, which are to be written. The block must have been held.
func (p *spot) entries(s *slot, n int) []algorithm.Entry {
	if p.block != 0 {
		p.sh.release(s)
		s.head |= spilled
		s.setList(p.block, n)
		p.block = 0
	}
	s.setList(s.block(), n)
	return p.sh.list(s)
}

// letGo gives back a block that was held in vain.
func (p *spot) letGo() {
	if p.block != 0 {
		p.sh.lists.free(p.block)
		p.block = 0
	}
}

package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// A slotRef is where a ticket expects a slot. Slots move, so the spot finds its slot by key each time.
type slotRef struct {
	key
	sh      *shard
	missing bool  // no slot was found
	wanted  bool  // it may be written
	block   block // for a new list, until it has a slot
}

func (p *slotRef) slot() *slot { return p.sh.find(p.key) }

// findSlot is slot, and notes whether there is one.
func (p *slotRef) findSlot() *slot {
	s := p.slot()
	p.missing = s == nil
	return s
}

// slotApart returns the slot of a request or a reservation, and adds it if there is none. Room must have
// been made.
func (p *slotRef) slotApart() *slot {
	if s := p.slot(); s != nil {
		return s
	}
	return p.sh.add(slot{key: p.key, head: apart})
}

// holdBlock ensures that a list of n entries can replace what the slot holds.
func (p *slotRef) holdBlock(n int, r *roomRequest, c claim) error {
	p.sh.needLists()
	if s := p.slot(); s != nil && s.isSpilled() && n <= cap(p.sh.list(s)) {
		return nil
	}
	if p.block = p.sh.allocEvicting(n, r, c); p.block == 0 {
		return p.sh.full()
	}
	return nil
}

// entries turns the slot into a list of n entries for the caller to write. The block must be held.
func (p *slotRef) entries(s *slot, n int) []algorithm.Entry {
	if p.block != 0 {
		p.sh.release(s)
		s.head |= spilled
		s.setList(p.block, n)
		p.block = 0
	}
	s.setList(s.block(), n)
	return p.sh.list(s)
}

// letGo frees a block that was held but not used.
func (p *slotRef) letGo() {
	if p.block != 0 {
		p.sh.lists.free(p.block)
		p.block = 0
	}
}

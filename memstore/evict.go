package memstore

import (
	"fmt"
	"math/rand/v2"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	sampleSlots = 8  // among which the best victim is chosen
	sampleMost  = 64 // looked at before giving up
)

func anySlot(*slot) bool   { return true }
func hasList(s *slot) bool { return s.isSpilled() }

// evict removes, of some slots side by side at a random place, the record of a call that would be
// forgotten soonest, but none of the ticket's own. It reports whether it found one. Forgetting a call
// means that its duplicates are charged; nothing else can be forgotten without undercounting.
func (sh *shard) evict(r *room, wanted func(*slot) bool) bool {
	size := sh.size()
	if size == 0 {
		return false
	}
	i := rand.Uint32N(size)
	victim, shortest := size, algorithm.MaxInstant
	seen := 0
	for range size {
		if i++; i == size {
			i = 0
		}
		s := sh.at(i)
		if s.head == 0 {
			continue
		}
		if seen++; seen > sampleMost || seen > sampleSlots && victim != size {
			break
		}
		left := s.left(r.now, r.isGiven())
		if left >= shortest || !s.isRecord() || !wanted(s) || r.isOwn(s) {
			continue
		}
		victim, shortest = i, left
	}
	if victim == size {
		return false
	}
	sh.drop(victim)
	if shortest > 0 {
		sh.memory.evicted.Add(1)
	}
	return true
}

// isOwn reports whether the slot is of a subject that the ticket charges, or of this very call.
func (r *room) isOwn(s *slot) bool {
	for i := range r.ticket.Groups {
		g := &r.ticket.Groups[i]
		switch {
		case !s.isApart():
			if k, _ := keyOf(&g.Subject, 0, r.seed); k.place == s.place {
				return true
			}
		case g.Dedup != nil && s.key == callKey(&g.Subject, &g.Call, r.seed),
			g.Reserve != 0 && s.key == reservationKey(&g.Subject, r.ticket.Nonce, r.seed):
			return true
		}
	}
	return false
}

// full is why no slot can be had.
func (sh *shard) full() error {
	return fmt.Errorf("make room in memory: %d bytes used: %w", sh.memory.used(), storage.ErrFull)
}

// refuse is full, of a ticket that cannot do without.
func (sh *shard) refuse() error {
	sh.memory.refused.Add(1)
	return sh.full()
}

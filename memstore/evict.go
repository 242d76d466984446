package memstore

import (
	"fmt"
	"math/rand/v2"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

const (
	sampleSlots = 8  // slots from which the victim is chosen
	sampleMost  = 64 // slots to visit before evict fails
)

func anySlot(*slot) bool   { return true }
func hasList(s *slot) bool { return s.isSpilled() }

// evict samples adjacent slots at a random position and removes the record or reservation that would expire first, of
// those that may be forgotten. It never removes one of the ticket itself. It reports whether it found one. Forgetting
// anything else would undercount.
func (sh *shard) evict(r *roomRequest, wanted func(*slot) bool) bool {
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
		if left >= shortest || !wanted(s) || !sh.isForgettable(s) || r.isOwn(s) {
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

// isOwn reports whether the slot belongs to a subject that the ticket charges, or to this request.
func (r *roomRequest) isOwn(s *slot) bool {
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

// full returns the error of a shard that has no room for another slot.
func (sh *shard) full() error {
	return fmt.Errorf("make room in memory: %d bytes used: %w", sh.memory.used(), storage.ErrFull)
}

// refuse counts a refused ticket and returns the error of full.
func (sh *shard) refuse() error {
	sh.memory.refused.Add(1)
	return sh.full()
}

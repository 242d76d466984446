package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// Expire removes what tickets with instants of their own wrote and that says nothing any more at such an
// instant. The real clock expires none of it, so a replay calls this now and then to hold only live keys.
// Later tickets must not have earlier instants.
func (s *Store) Expire(now algorithm.Instant) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		if sh.chunks > 0 {
			sh.shrink(func(s *slot) bool { return s.left(now, true) <= 0 }, 4)
		}
		if sh.lists != nil {
			sh.lists.trim()
		}
		sh.mu.Unlock()
	}
	s.memory.purge()
}

package memstore

import (
	"github.com/penstock-io/penstock/algorithm"
)

// Expire removes expired state that was written by tickets with their own instants. The real clock never
// expires it, so a replay calls Expire from time to time to hold only live keys. Later tickets must not
// have earlier instants.
func (s *Store) Expire(now algorithm.Instant) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.lock()
		if sh.chunks > 0 {
			sh.shrink(func(s *slot) bool { return s.left(now, true) <= 0 }, 4)
		}
		if sh.lists != nil {
			sh.lists.trim()
		}
		sh.unlock()
	}
	s.memory.purge()
}

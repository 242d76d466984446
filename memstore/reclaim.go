package memstore

// When there is no memory left, expired state is removed before anything that lives is forgotten or
// refused, and without the grace that it is kept for otherwise. Looking at all slots of a shard takes
// about as long as a hundred decisions, so that is done at most once in a reclaimUnit.

// reclaimUnit is the grain, as a shift, of the instants at which shards were reclaimed: 131 ms.
const reclaimUnit = 17

// helpShards is how many shards one ticket reclaims beside its own. A small store has no more.
const helpShards = 16

// reclaimFor removes expired state until there is enough, first in this shard and then in others. It
// reports whether there is.
func (sh *shard) reclaimFor(r *room, enough func() bool) bool {
	if sh.reclaim(r) && enough() {
		return true
	}
	for range helpShards {
		other := sh.memory.nextToHelp(uint32(r.now >> reclaimUnit))
		if other == nil {
			return false
		}
		if !other.mu.TryLock() { // the ticket may hold the lock itself
			continue
		}
		done := other.reclaim(r)
		other.mu.Unlock()
		if done && enough() {
			return true
		}
	}
	return false
}

// nextToHelp returns the shards one after the other, each once in a unit; nil if that was all.
func (m *memory) nextToHelp(unit uint32) *shard {
	next := m.helped.Load()
	if uint32(next>>32) != unit {
		next = uint64(unit) << 32
	}
	if i := int(uint32(next)); i < len(m.store.shards) {
		m.helped.Store(next + 1) // two goroutines may get the same one, which is harmless
		return &m.store.shards[i]
	}
	return nil
}

// reclaim removes all that has expired, except what the ticket itself looks at. It reports whether
// it did so now.
func (sh *shard) reclaim(r *room) bool {
	unit := uint32(r.now >> reclaimUnit)
	if sh.reclaimed == unit || sh.chunks == 0 {
		return false
	}
	sh.reclaimed = unit
	sh.shrink(func(s *slot) bool { return s.left(r.now, r.isGiven()) <= 0 && !r.isOwn(s) }, maxShare)
	if sh.lists != nil {
		sh.lists.trim()
	}
	return true
}

// maxShare makes shrink free even a single chunk.
const maxShare = 1 << 30

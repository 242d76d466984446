package memstore

// When there is no memory left, expired state is removed before any live state is forgotten or refused, and
// without the usual grace period. Visiting all slots of a shard takes about as long as a hundred decisions,
// so it happens at most once per reclaimUnit.

// reclaimUnit is the granularity, as a shift, of the instants at which shards were reclaimed: 131 ms.
const reclaimUnit = 17

// helpShards is how many other shards one ticket reclaims. A small store has no more.
const helpShards = 16

// reclaimFor removes expired state until there is enough room, first in this shard and then in others. It
// reports whether there is enough. share limits how much the table of this shard shrinks.
func (sh *shard) reclaimFor(r *roomRequest, share uint32, enough func() bool) bool {
	if sh.reclaim(r, share, true) && enough() {
		return true
	}
	for range helpShards {
		other := sh.memory.nextToHelp(uint32(r.now >> reclaimUnit))
		if other == nil {
			return false
		}
		var done bool
		switch {
		case r.holds(other):
			done = other.reclaim(r, noShare, false)
		case other.tryLock(): // waiting for it while holding other locks could deadlock
			done = other.reclaim(r, anyShare, false)
			other.unlock()
		}
		if done && enough() {
			return true
		}
	}
	return false
}

// holds reports whether the ticket holds the lock of a shard.
func (r *roomRequest) holds(sh *shard) bool {
	for _, i := range r.held {
		if &sh.memory.store.shards[i] == sh {
			return true
		}
	}
	for i := range r.ticket.Groups {
		if sh.memory.store.shardOf(&r.ticket.Groups[i].Subject) == sh {
			return true
		}
	}
	return false
}

// nextToHelp returns the shards one after the other, each once per unit, and nil after the last.
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

// reclaim removes all expired state except what the ticket itself uses. It reports whether it ran. At an instant that
// the ticket brings, state written by the real clock goes first, and only that if another shard needs the room (own is
// false): such instants may go back, and then state that had expired counts again.
func (sh *shard) reclaim(r *roomRequest, share uint32, own bool) bool {
	unit := uint32(r.now >> reclaimUnit)
	if sh.reclaimed == unit || sh.chunks == 0 {
		return false
	}
	expired := func(s *slot) bool { return s.left(r.now, r.isGiven()) <= 0 && !r.isOwn(s) }
	if r.isGiven() {
		now := sh.memory.store.clock.now()
		real := func(s *slot) bool { return s.left(now, false) <= 0 && !r.isOwn(s) }
		if !own || sh.matching(real) > 0 {
			expired, unit = real, sh.reclaimed
		}
	}
	sh.reclaimed = unit
	sh.shrink(expired, share)
	if sh.lists != nil {
		sh.lists.trim()
	}
	return true
}

// Shares for shrink.
const (
	noShare  = 0       // the table keeps its length, as room has been made in it
	anyShare = 1 << 30 // even a single chunk is worth it
)

package memstore

// A hotSlot is a shard's slot whose key was last charged twice in a row. It is moved from the table to the cache line
// of the shard's lock. So a key that is charged again and again is not searched for, and processors that charge it
// in turn pass one cache line to each other and not two. Only single charges look here. All others take the lock by
// shard.lock, which puts the slot back.
type hotSlot struct {
	slot        // empty if no key is hot
	home *slot  // where the slot belongs; what is there is out of date
	last uint64 // the name of the key that was last charged
}

// fetch starts to fetch the slots of a place without waiting for them, unless it is probably that of the hot slot: then
// another processor may be writing to what is in the table, for which it would have to wait. It needs no lock.
func (sh *shard) fetch(place uint64) (isHot bool) {
	if sh.hotPlace.Load() == place {
		return true
	}
	sh.table.fetch(place)
	return false
}

// lock takes the lock. Afterwards, the table is complete.
func (sh *shard) lock() {
	sh.mu.Lock()
	sh.coolDown()
}

// tryLock is lock if it need not wait.
func (sh *shard) tryLock() bool {
	if !sh.mu.TryLock() {
		return false
	}
	sh.coolDown()
	return true
}

// unlock gives up the lock after what may have been a change.
func (sh *shard) unlock() {
	sh.forgetDenial()
	sh.mu.Unlock()
}

// coolDown puts the hot slot back.
func (sh *shard) coolDown() {
	if h := &sh.hot; h.head != 0 {
		*h.home = h.slot
		h.head = 0
	}
}

// noteCharge notes that a key was charged in the table. If it is the second time in a row, the slots at its place are
// no longer fetched ahead: they would be taken away from the processor that has the lock.
func (sh *shard) noteCharge(k key) {
	if h := &sh.hot; h.last != k.name {
		h.last = k.name
	} else if sh.hotPlace.Load() != k.place {
		sh.hotPlace.Store(k.place)
	}
}

// warmUp notes that the key of a slot was charged, and makes the slot hot if it is the second time in a row.
func (sh *shard) warmUp(s *slot) *slot {
	h := &sh.hot
	if h.last != s.name {
		h.last = s.name
		return s
	}
	sh.coolDown()
	h.slot, h.home = *s, s
	sh.hotPlace.Store(s.place)
	return &h.slot
}

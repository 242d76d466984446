package memstore

// A subject may have any number of records of requests and of reservations, so they do not lie in its shard, which
// ends at about a MiB. They are spread by their own keys over shards that hold nothing else. A ticket locks those
// of its subjects first and then these: the holder of a subject's lock may lock them one after the other.
//
// What may be forgotten uses at most half of the memory: then the oldest is forgotten for what is new.

// apartShard returns the shard of a record or a reservation, and its index.
func (s *Store) apartShard(k key) (*shard, uint64) {
	index := uint64(s.subjects()) + k.name*s.seed>>s.shift
	return &s.shards[index], index
}

// subjects returns how many shards hold the states of subjects. They are the first.
func (s *Store) subjects() int { return len(s.shards) / 2 }

// apartShards returns the shards of records and reservations.
func (s *Store) apartShards() []shard { return s.shards[s.subjects():] }

// isApart reports whether the shard holds records and reservations.
func (sh *shard) isApart() bool { return sh.memory.isApart(&sh.table) }

// isForgettable reports whether a record or a reservation may be forgotten early: a forgotten record lets a duplicate
// be charged, a closed reservation answers that there is none, and one for a refund refunds nothing. Forgetting an open
// one would charge the estimate for good.
func (sh *shard) isForgettable(s *slot) bool {
	if !s.isSpilled() {
		return true
	}
	list := sh.list(s)
	return len(list) < reservationHeader || list[1].At&(reservationClosed|reservationRefund) != 0
}

// makeRoomApart ensures that n records or reservations can be added. It moves slots.
func (sh *shard) makeRoomApart(n uint32, r *roomRequest, c claim) error {
	now := sh.prepareRoom(r)
	fits := func(c claim) bool {
		return sh.table.hasRoom(n) || sh.grow(n, now, c) && sh.table.hasRoom(n)
	}
	enough := func() bool { return fits(forRecords) }
	if enough() || sh.reclaimFor(r, anyShare, enough) {
		return nil
	}
	for !sh.table.hasRoom(n) && sh.evict(r, anySlot) {
	}
	if !fits(c) {
		return sh.full()
	}
	return nil
}

// allocEvicting returns a block for n entries of a record or a reservation, evicting others if necessary, or 0 if even
// that does not help.
func (sh *shard) allocEvicting(n int, r *roomRequest, c claim) block {
	const tries = 8
	b := sh.allocReclaiming(n, r, forRecords)
	for i := 0; b == 0 && i < tries && sh.evict(r, hasList); i++ {
		b = sh.lists.alloc(n, forRecords)
	}
	if b == 0 && c != forRecords {
		b = sh.lists.alloc(n, c)
	}
	return b
}

// makeRoomForGuards makes room for the records and reservations that the ticket may write. Without room for a record,
// duplicates of the request are charged.
func (w *workspace) makeRoomForGuards(r *roomRequest) error {
	for i := range w.guards {
		if p := &w.guards[i].record; p.newSlots() > 0 && p.sh.makeRoomApart(w.newSlotsApart(p.sh), r, forRecords) != nil {
			p.wanted = false
		}
	}
	for i := range w.guards {
		if p := &w.guards[i].reservation; p.newSlots() > 0 && p.sh.makeRoomApart(w.newSlotsApart(p.sh), r, w.claimFor(i)) != nil {
			return p.sh.refuse()
		}
	}
	return nil
}

// newSlotsApart returns how many records and reservations the ticket may add to a shard.
func (w *workspace) newSlotsApart(sh *shard) (n uint32) {
	for i := range w.guards {
		n += w.guards[i].newSlots(sh)
	}
	return n
}

// claimFor returns what memory the reservation of a group may use.
func (w *workspace) claimFor(group int) claim {
	if w.ticket.Groups[group].RefundOnly {
		return forRecords
	}
	return forState
}

package memstore

// Stats is what a store holds.
type Stats struct {
	Keys    int64 // slots in use; what has expired is among them until it is noticed
	Shared  int64 // of these, counters that several keys share, as there is no room for one each
	Bytes   int64 // of all tables and arenas, used or not
	Evicted int64 // records of calls that were forgotten before their time to make room
	Refused int64 // tickets that found no room: permits, reservations and bans
}

// Stats counts keys shard by shard: each count is exact, their sum is not of one instant.
func (s *Store) Stats() Stats {
	st := Stats{Bytes: s.memory.used(), Evicted: s.memory.evicted.Load(), Refused: s.memory.refused.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		st.Keys += int64(sh.count)
		st.Shared += int64(sh.shared)
		sh.mu.Unlock()
	}
	return st
}

package memstore

// Stats describes what a store holds.
type Stats struct {
	Keys    int64 // slots in use, including expired ones that have not been removed yet
	Shared  int64 // of these, counters that several keys share for lack of room
	Bytes   int64 // of all tables and arenas, used or not
	Evicted int64 // records of requests, and reservations, that were forgotten early to make room
	Refused int64 // tickets refused for lack of room: permits, reservations and bans
}

// Stats counts keys shard by shard: each count is exact, but they are not of one instant.
func (s *Store) Stats() Stats {
	st := Stats{Bytes: s.memory.used(), Evicted: s.memory.evicted.Load(), Refused: s.memory.refused.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.lock()
		st.Keys += int64(sh.count)
		st.Shared += int64(sh.shared)
		sh.unlock()
	}
	return st
}

// Package memstore is a [penstock.Store] in the memory of this process. It serves a single node, tests and
// replays, and local decisions while a shared store is unavailable.
//
// # The path of a ticket
//
// The subject selects a shard, so all limits of one client are under one lock. A shard is a table of
// 32-byte slots, sorted by key, with one slot for each subject and limit. A slot holds the whole state of a
// fixed-size limit. A log, a set of permits or a very large counter is a block in the shard's arena. The
// store locks every shard that a ticket needs, in ascending order, weighs all charges, makes room for new
// state, and only then writes.
//
// Strikes and bans, and the budget for duplicates, are slots next to those of their subject's limits. The
// record of a request with an idempotency key has its own slot. So does a reservation, whose receipts are a
// block. A subject may have many of both, so they are spread over shards of their own.
//
// # Memory
//
// There is no pointer per key. Tables and lists lie in one mapping outside the garbage-collected heap
// (where the system allows it), so they cost the collector nothing, however many keys there are. Tables
// grow in place by a sixteenth. Options.MaxBytes bounds resident memory; on Linux, unused memory is
// returned to the system.
//
// Expired state is removed in two ways: a little of it whenever a key is added, and all of it by a
// goroutine that visits the shards every second or, in a large store, every few seconds. A ticket that
// brings its own instant expires nothing, and the real clock does not expire what such a ticket wrote.
//
// When the memory is used up, the store removes expired state at once. Records of requests, closed reservations, and
// reservations kept for a refund only use at most half of the memory; beyond that the oldest are forgotten, and
// their duplicates are charged. The store never forgets live counters, bans, permits or open reservations. A key for
// which there is no room shares a counter with other keys of its limit. It may be denied because of them,
// but it never gets more than its limit. It collects no strikes, and resetting it has no effect, because
// the counter is not its own. A log that cannot grow becomes coarser: it counts some requests for longer.
// Permits, reservations and manual bans need their own room and fail with [storage.ErrFull]. A ticket that
// fails does so as a whole, including its independent groups, before anything is written.
//
// # Time
//
// A decision reads the clock under the lock of its shard, or before it waits for the lock and again if it then
// finds a later state: instants are never older than the call and never go back because a goroutine had to
// wait. The clock is the monotonic clock plus an offset that is checked against the wall clock every 10 ms.
package memstore

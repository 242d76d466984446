// Package memstore is a [penstock.Store] in the memory of this process: for a single node, for
// tests and replays, and for deciding locally while a shared store cannot be reached.
//
// # The path of a ticket
//
// The subject picks a shard, so that all limits of one caller are under one lock. A shard is a
// table of 32-byte slots, sorted by key, with one slot for each subject and limit. A slot holds the
// whole state of a fixed-size limit; a log, a set of leases or a very large counter is a block in the
// shard's arena. Every shard that a ticket needs is locked, in ascending order; all charges are
// weighed; room is made for what will be new; only then is anything written.
//
// Strikes and bans, and the budget for repeated calls, are slots beside those of their subject's
// limits. A call that may be repeated is a slot of its own, and so is a reservation, whose receipts are
// a block. Both are in their subject's shard, though spread over it, as there may be many of them.
//
// # Memory
//
// There is no pointer per key. Tables and lists lie in one mapping outside the garbage-collected heap
// (where the system allows), so the collector has nothing to do with them, however many keys there are.
// Tables grow by a sixteenth, in place. What counts against Options.MaxBytes is resident memory; on
// Linux it is returned to the system when it is not needed any more.
//
// State is removed when it has expired: some of it whenever a key is added, and all of it by a goroutine
// that passes over the shards, every second or, in a large store, every few seconds. A ticket with an
// instant of its own expires nothing, and what it wrote is not expired by the real clock.
//
// When the memory is used up, expired state is removed at once, and then records of calls, whose
// duplicates are charged in that case. Live counters, bans, permits and reservations are never
// forgotten. A key for which there is no room shares a counter with other keys of its limit, so it may
// be denied because of them but never gets more than its limit; it collects no strikes, and resetting
// it does not help, as the counter is not its own. A log that cannot grow becomes coarser: it counts
// some requests for longer. Permits, reservations and bans by hand need room of their own and fail
// with [penstock.ErrFull]. A ticket that fails does so as a whole, groups that are alone included,
// before anything of it is written.
//
// # Time
//
// Every decision reads the clock, under the lock of its shard: instants are never older than the call
// and never go back because a goroutine had to wait. The clock is the monotonic one plus an offset that
// is checked against the wall clock every 10 ms.
package memstore

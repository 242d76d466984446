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
// There is no pointer per key. The tables lie in one region outside the garbage-collected heap (where
// the system allows), so that the collector has nothing to do with them, however many keys there
// are. They grow by a sixteenth, in place. Everything is counted against Options.MaxBytes.
//
// When the budget is used up, a new key takes the place of the sampled entry that would be
// forgotten soonest and is not spent. A spent entry (nothing remaining) stays until its time is
// over, and so does a ban, so a flood of new keys never gives anybody their tokens back. A call or a
// reservation may be forgotten: its repeat is then charged, and its estimate stays charged. Where
// every sampled entry is spent, Take returns [penstock.ErrFull]. A ticket for which there is no room
// fails as a whole, groups that are alone included, before anything of it is written.
//
// # Time
//
// While there is much traffic, a goroutine keeps a coarse instant, so that most calls read no clock.
// It lies a little in the past and may only allow: before anything is denied the real clock is
// read and the ticket weighed again. Guards, settlements and bans always go by the real clock.
//
// State is forgotten when it says nothing any more: a few slots are looked at whenever a key is
// added, some more from time to time while the coarse clock runs, and all of a shard's when its
// table grows. A ticket with an instant of its own forgets nothing, and what it wrote is not
// forgotten by the real clock.
package memstore

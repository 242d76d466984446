// Package denycache is a [penstock.Store] around a [penstock.Store]: once the store has denied a request
// until some instant, this node denies by itself. So a client that keeps sending costs the store about one
// request a second.
//
// It is separate because it knows nothing about rules or of how a store works: it sees the answers and repeats
// what follows from them.
//
// # What is kept
//
// For a firm denial the cache keeps the states that led to it, each under its subject and its limit's
// numbers. The next ticket is decided against them at the current instant, with the same code that stores
// use. So retry-after shrinks, a larger cost is denied with its own numbers, and a smaller one that might
// pass goes to the store. So does one under a limit that was changed.
//
// An entry is valid for one second from the moment its ticket was sent, and a denial never for longer than it
// is firm. Requests that other nodes allowed in the meantime can only have used more, so the denial is still
// right; used and remaining are up to a second old.
//
// # What always goes to the store
//
// Everything that a denied request changes, and everything that may pass sooner than its limits say: groups
// that are alone (shadow rules count each request), strikes, count_denied, concurrency, reservations,
// requests that may be duplicates, and any ticket with an unknown group. A limit that counts all requests is
// answered from the cache although it is alone: while it is known to be exceeded, requests are denied and
// not counted, which matters only if the limit is raised within the window. That entry is valid for a minute.
// Within its group a ban comes before all of these, so bans are answered, whatever else the rule has. A
// sliding log is known only while it lacks a single unit: otherwise its numbers would depend on entries that
// the cache has not seen.
//
// # Operators
//
// A reset, a ban, a lift or a settlement through this node takes effect at once, even if a denial is on its
// way. One through another node takes effect within the second, or when this node learns of it
// ([Cache.Forget]). The same goes for anything else that another node gives back to a subject without its own
// group saying so: the reservation of a request that asked for one, leases, and what a ticket across slots
// took and has to undo.
//
// # Memory
//
// A table of fixed size, without pointers: sets of eight entries, each with its lock. All entries of a
// subject are in one set, so finding and forgetting them takes one lock. A general cache (otter) would keep
// each entry on the heap, and could not drop all entries of a subject at once or reject answers that were
// asked for before that. A full set evicts its oldest entry. Subjects are compared in
// full: two that share a set are never confused.
//
// # Time
//
// The store's clock decides, and this node's clock only says how long ago that was: the store's instant lies
// between sending and receiving. A denial ends by the earlier end of that span, so that it never outlasts the
// store's. The wait that a client is told is counted from the later end, so that it is never too short. A
// ticket with an instant of its own is answered only from the answers to such tickets.
package denycache

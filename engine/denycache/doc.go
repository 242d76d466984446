// Package denycache is a [penstock.Store] around a [penstock.Store]: once the store has said "not
// before then", this node denies by itself, so that a caller who does not stop costs the store about
// one call a second.
//
// It is separate because it knows nothing of rules or of how a store works: it hears the answers and
// repeats what they imply.
//
// # What is kept
//
// Of a denial that is firm the cache keeps the states that it was made of, each under its subject and
// its limit's numbers. The next ticket is weighed against them with the same code that stores use, at
// the instant that it now is. So retry-after shrinks, a larger cost is denied with its own numbers, a
// smaller one that might pass goes to the store, and so does one under a limit that was changed.
//
// What is kept is believed for one second from the moment its ticket was sent, and no denial for longer
// than it is firm. What others were allowed meanwhile can only have used up more, so the denial is still
// right; used and remaining are up to a second old.
//
// # What always goes to the store
//
// Whatever a denied call changes, and whatever may pass sooner than its limits say: groups that are
// alone (shadow rules count each call), strikes, count_denied, concurrency, reservations, calls that
// may be repeats, and any ticket of which one group is not known. A limit that counts all requests is
// answered although it is alone: while it is known to be over, requests are denied and not counted, which
// matters only to a limit that is raised within the window. That is believed for a minute. A ban comes before all of
// these within its group, so bans are answered, whatever else the rule has. A sliding log is known only while it
// lacks a single unit: else its numbers would depend on entries that the cache has not seen.
//
// # Operators
//
// A reset, a ban, a lift or a settlement through this node takes effect at once, also where a denial is
// on its way. One through another node takes effect within the second, or when this node is told
// ([Cache.Forget]). The same goes for whatever else another node gives back to a subject whose own
// group says nothing of it: the reservation of a call that asked for one, permits that were taken ahead,
// what a ticket across slots took and has to undo.
//
// # Memory
//
// A table of fixed size, without pointers: sets of eight entries, each with its lock. All that is known
// of a subject is in one set, so it is found, and forgotten, with one lock. A general cache (otter)
// would keep each entry on the heap, and could not drop all of a subject's at once or refuse what was
// asked before that. A full set gives up what was asked for longest ago. Subjects are compared as a
// whole: two that share a set are never taken for each other.
//
// # Time
//
// The store's clock decides, and this node's tells only how long ago that was: the store's instant
// lies between sending and hearing. A denial ends by the earlier end of that span, so that it never
// outlasts the store's; what a client is told to wait is counted from the later, so that it is never
// too short. A ticket with an instant of its own is answered from what tickets with instants
// were told.
package denycache

// Package lease is a [penstock.Store] around a [penstock.Store] that leases quota for hot keys: a node then
// decides most requests of such a key by itself, and the store sees one operation for each lease instead of
// one for each decision. Only groups marked [storage.Group.Leased] are leased. It is separate because it
// keeps no state that counts: leased quota is a charge that the store has already taken, so a node that dies
// loses quota and never admits too much.
//
// # What is promised
//
// Leased quota expires ℓ after the moment the ticket that took it was sent, and never outlives its fixed
// window or calendar period. ℓ is a hundredth of the limit's window and at most a second. Quota of a rule that
// has only fixed windows and periods lives until the first of them ends, but at most a second: when in a window
// it is spent does not matter. So, by the store's clock:
//
//	fixed_window            at most L in each window or period, as without leases
//	sliding_window_counter  the counter's own bound in every W − ℓ
//	token_bucket            at most B + r·(T + ℓ) in any time T (continuous refill)
//
// Less may pass than without leases: what a node does not spend in time is lost for the subject, as if it
// had been spent. That is at most about what it spent in the previous ℓ. A machine that is suspended as a
// whole, including its clock, still has its quota when it resumes.
//
// A denial by the store is not firm ([storage.GroupOutcome.FirmUntil]) while the node holds quota or a lease is
// on its way. Otherwise a deny cache in front would answer, and the quota would not be spent.
//
// # Shutdown
//
// A node that shuts down gives back what it has not spent, by [Store.Return], of leases younger than ℓ. For
// that the store remembers each lease for ℓ and a quarter of a second, as a reservation under the ticket's
// nonce, in the same step that charges it. Return settles it for what was spent, which takes effect once,
// however often it is sent. Afterwards windows and counters are as if only that had ever been charged. So are
// buckets that were not full in the meantime. A bucket that would have been full without the lease has
// refilled a little more, within the bound above.
//
// So a denial by the store may turn into a pass early. Shutting down a node counts as an operator's action
// ([storage.GroupOutcome.FirmUntil]), and a cached denial is valid for a second at most.
//
// # Size of a lease
//
// A lease is sized by what the node has recently spent for the key, and takes at most an eighth of what the
// store had left. So no node starves the others, and near the limit, where an eighth is fewer than eight
// requests, the store decides every request as if nothing were leased. A lease travels with a ticket that
// goes to the store anyway, as a separate group that is alone. If no ticket has to go there, it travels with
// one of the last requests that the previous lease covers. There is no goroutine and no second round trip.
//
// # What stays exact
//
// Groups with a penalty, a reservation or a request ID; peeks, and charges that overdraw; limits that count
// denied requests; other algorithms; windows below 500 ms; groups with more than four limits, or with
// different costs for them; tickets that are already denied. Denials always come from the store.
//
// # What is reported
//
// The outcome of a group that was decided from a lease says Leased; verdicts take their quality from it.
//
// A decision from a lease reports what a peek would report if no other node had decided a request since the
// last lease. So all quota of this node counts as used, and the decision promises no more than the store
// would. The Receipt holds the instant at which the quota was charged. The outcome holds the store's time as
// far as it can be known here, which is ahead of it by at most the round trip. A store that does not fill in
// [storage.Outcome.States] is not leased from.
//
// # Operators
//
// Leases show as reservations of their subject. A reset through this node drops the subject's quota here;
// other nodes hold theirs until it expires, for at most a second.
//
// # Changed limits
//
// Quota is spent only under the limit it was leased under. When a limit's numbers change, a node drops its
// quota as soon as it decides by the new ones; the store has charged it, and it stays charged. So a lowered
// limit admits nothing beyond what the store allows, on every node that has the new rules.
package lease

// Package lease is a [penstock.Store] around a [penstock.Store] that takes permits ahead for hot
// keys: a node then decides most calls of such a key by itself, and the store sees one call for
// each lease instead of one for each decision. Only groups marked [penstock.Group.Leased] are
// leased. It is separate because it keeps no state that counts: a permit is a charge that the store
// has taken already, so a node that dies loses permits and never admits too much.
//
// # What is promised
//
// Every permit ends ℓ after the moment the ticket that took it was sent, and never outlives its fixed
// window or calendar period. ℓ is a hundredth of the limit's window and at most a second. So, by the
// store's clock:
//
//	fixed_window            at most L in each window or period, as without leases
//	sliding_window_counter  the counter's own bound in every W − ℓ
//	token_bucket            at most B + r·(T + ℓ) in any time T (continuous refill)
//
// Less may pass than without leases: what a node does not spend within ℓ is lost for the subject, as if
// it had been spent. That is at most about what it spent in the ℓ before. A machine that is suspended as a
// whole, its clock included, still has its permits when it goes on.
//
// # A node that ends
//
// gives back what it has not spent, by [Store.Return]. For that the store remembers each lease for ℓ and a
// quarter of a second, as a reservation under the ticket's nonce, in the same step that charges it; Return
// settles it for what was spent of it, which takes effect once, however often it is sent. Afterwards a window
// and a counter are as if only that had ever been charged. So is a bucket that was not full in the
// meantime; one that was went on refilling where it would have been full, within the bound above.
//
// A denial by the store may so turn into a pass before its time. To end a node is an operator's hand
// ([penstock.GroupOutcome.FirmUntil]), and a denial is believed for a second at most.
//
// # How many
//
// A lease is sized by what the node has spent of the key lately, and takes at most an eighth of what
// the store had left: no node starves the others, and near the limit, where that is fewer than eight
// calls, every call is decided by the store as if nothing were leased. The permits ride along
// with a ticket that goes to the store, as a group of their own that is alone; if none has to, with
// one of the last calls that the previous lease covers. There is no goroutine and no second call.
//
// # What stays exact
//
// Groups with a penalty, a reservation or a call's id; peeks, and charges that overdraw; limits
// that count denied calls; other algorithms; windows below 500 ms; groups with more than four limits,
// or with different costs for them; tickets that are denied already. Denials are always the store's.
//
// # What is reported
//
// The outcome of a group that permits decided says Leased, from which verdicts take their quality.
//
// Of a decision by permits: what a peek would be told if nobody else had called since the last lease,
// so all permits of this node count as used, and no more is promised than the store would; in the Receipt
// the instant at which the permit was charged; in the outcome the store's time as far as it can be known
// here, which is ahead of it by no more than the round trip took. A store that does not tell the
// [penstock.Outcome.States] is not leased from.
//
// # Operators
//
// Leases show as reservations of their subject. A reset through this node drops the subject's permits here; other
// nodes hold theirs for at most ℓ.
//
// # Changed limits
//
// A permit is spent only under the limit it was taken under. When a limit's numbers change, a node drops
// its permits as soon as it decides by the new ones; the store has charged them, and they stay charged.
// So a lowered limit admits nothing beyond what the store allows, on every node that has the new rules.
package lease

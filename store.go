package penstock

import "context"

// A Store decides tickets atomically. Stores differ in where state lives, never in what they
// decide: package storetest is the contract as a suite.
//
// A denial is an answer, not an error. An error means that the store could not answer, and wraps
// [ErrUnavailable], or that nobody could, and wraps [ErrInvalid]; the outcome is then meaningless.
// A charge whose error wraps ErrUnavailable may have been taken: it must not be sent again.
//
// What a store can do beside deciding (giving back, inspecting, resetting) is said by further
// small interfaces. What decides before, after or instead of a store (a cache of denials, a
// breaker, leased permits) is a Store around a Store.
type Store interface {
	Take(ctx context.Context, t *Ticket, out *Outcome) error
}

// A BatchStore decides many tickets in one call, each by itself, sooner than one by one.
type BatchStore interface {
	TakeEach(ctx context.Context, turns []Turn)
}

// A Turn is a ticket of a batch, and what became of it.
type Turn struct {
	Ticket  Ticket
	Outcome Outcome // meaningless with an error
	Err     error
}

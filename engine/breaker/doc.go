// Package breaker is a circuit breaker around a store: it fails fast while the store does not answer.
//
//	closed ──20 failures in a row, or half of the last 100, or one that says it is down──▶ open
//	   ▲                                                                                    │
//	   └──────────────────────────── a probe succeeds, every 250 ms ────────────────────────┘
//
// While it is open every request gets [penstock.ErrUnavailable] at once, and the rules' on_store_error
// decides. There is no half-open state in which some requests are the probe: a probe is a separate operation,
// so no client ever waits for one.
//
// With [Options.Watch] it also probes while it is closed: one probe that says the store is down, or three
// consecutive failed probes, open it. So a node without requests notices too.
//
// A store may have zones, as a cluster has masters: each is open or closed by itself, so that a lost zone
// affects only requests that need it.
//
// Nothing is ever retried: an operation that failed may have been charged. There is no timeout here either:
// that is up to the store, which can set the deadline on its connection.
//
// It is separate from the stores, because it knows nothing about Redis, and from the engine, which does not need
// to know why its store has not answered.
package breaker

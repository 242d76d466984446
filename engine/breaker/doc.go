// Package breaker keeps callers from a store that does not answer.
//
//	closed ──20 failures in a row, or half of the last 100, or one that says it is down──▶ open
//	   ▲                                                                                    │
//	   └──────────────────────────── a probe succeeds, every 250 ms ────────────────────────┘
//
// While it is open every call gets [penstock.ErrUnavailable] at once, and the rules' on_store_error
// decides. There is no half-open state in which some calls are the probe: a probe is an operation of
// its own, so no caller ever waits to find out.
//
// With [Options.Watch] it also probes while it is closed: one probe that says the store is down, or three
// failed ones in a row, open it, so that a node without requests notices.
//
// A store may have zones, as a cluster has masters: each is open or closed for itself, so that one that
// is lost is nobody's trouble who does not need it.
//
// Nothing is ever tried again: a call that failed may have been charged. And there is no timer here:
// how long a call may take is for the store to keep, which can put the deadline on its connection.
//
// It is separate from the stores, as it knows nothing of Redis, and from the engine, which does not
// care why its store has not answered.
package breaker

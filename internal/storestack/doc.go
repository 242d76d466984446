// Package storestack assembles the stores that a node decides with: Redis behind a circuit breaker, leases
// and a deny cache, with memory as the fallback; or memory alone.
//
// It is separate so that the server and package stack, for Go programs, share it.
package storestack

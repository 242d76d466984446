// Package storestack assembles the stores that a node decides with: Redis behind a circuit breaker, leases
// and a deny cache, and memory for while Redis is away; or memory alone.
//
// It is separate so that the server and package stack, for Go programs, have the same.
package storestack

// Package latency measures how long a request waits for a decision on Redis when requests arrive on a schedule,
// and the effect of a slower network on one round trip and on four.
//
// It is separate from package redis because its load is an open loop: the next request does not wait for the
// last, so a server that stalls delays all the requests that are due meanwhile, not one.
package latency

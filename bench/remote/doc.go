// Package remote holds the limiters that keep their state in Redis, ours and the peers', behind
// one interface.
//
// It is separate from the benchmarks that use it because there are two: package redis measures
// what they do at full speed, package latency how long a call waits at a given rate.
package remote

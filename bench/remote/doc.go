// Package remote contains the limiters that keep their state in Redis, ours and the peers', behind one interface.
//
// It is separate from the benchmarks that use it because there are two: package redis measures them at full
// speed, package latency measures how long a request waits at a given rate.
package remote

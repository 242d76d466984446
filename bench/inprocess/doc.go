// Package inprocess contains the limiters that keep their state in process memory, ours and the peers', behind
// one interface, and the child processes in which they are measured.
//
// Every contestant runs in its own process, so that no contestant pays for another's garbage. The parent runs
// them in turn, so that a slow phase of the machine affects all. It is separate from the benchmarks that use it
// because there are two: package memory measures speed, package keys what a key costs.
package inprocess

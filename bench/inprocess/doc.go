// Package inprocess holds the limiters that keep their state in process memory, ours and the
// peers', behind one interface, and the child processes in which they are measured.
//
// Every contestant runs in a process of its own, so that one's garbage is never collected on
// another's time, while the parent asks them in turn, so that a slow phase of the machine falls
// on all. It is separate from the benchmarks that use it because there are two: package memory
// measures speed, package keys what a key costs.
package inprocess

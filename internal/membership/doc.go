// Package membership tells how many nodes share the limits, without anybody saying so: each node
// beats now and then where all of them look, and is told how many do.
//
// It is needed when that place is not there: rules may divide their limits among the nodes while the
// store does not answer. So the last number stands for as long as there is no newer one, and on disk
// for the next start.
//
// It is separate from the store, which only counts beats, and from the engine, which asks for a number
// on its way and waits for nothing.
package membership

// Package membership tells which nodes share the limits, without anybody saying so: each node beats
// now and then where all of them look, says a few things of itself, and is told what the others say.
//
// Their number is needed when that place is not there: rules may divide their limits among the nodes
// while the store does not answer. So the last number stands for as long as there is no newer one, and
// on disk for the next start. What nodes say is for people to look at: it is believed only as far as it
// has the form that nodes give it, and has no part in any decision.
//
// It is separate from the store, which only passes beats on, and from the engine, which asks for a
// number on its way and waits for nothing.
package membership

// Package membership discovers which nodes share the limits, without configuration: each node sends regular
// heartbeats to a shared place, with a few facts about itself, and reads those of the others.
//
// The number of nodes is needed when that place is unavailable: rules may divide their limits among the nodes
// while the store does not answer. So the last number stays valid until there is a newer one, and is kept on
// disk for the next start. The facts are for people to read: they are accepted only in the form that nodes
// write, and do not affect any decision.
//
// It is separate from the store, which only passes heartbeats on, and from the engine, which reads a number
// and waits for nothing.
package membership

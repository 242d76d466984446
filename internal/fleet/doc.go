// Package fleet reports the traffic of all nodes that share the limits.
//
// A node that is asked for numbers asks the others, adds up their answers, and says which nodes did not answer. So
// nothing is sent unless somebody asks, and a node keeps nothing about the others. Names of clients come from the node
// that saw them, in messages that only nodes can read, and are never stored elsewhere.
//
// It is separate from the admin API, because nodes without one answer too.
package fleet

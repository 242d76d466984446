// Package bounds defines how large a request may be. Every API checks requests against these constants, and the rules
// document allows names of the same lengths, so a rule can match everything that an API accepts.
package bounds

// Bounds of a request, in bytes unless they are counts.
const (
	Domain         = 255
	Attributes     = 256 // count
	AttributeName  = 128
	AttributeValue = 8 << 10
	CallID         = 8 << 10
)

// JSONBodies bounds the memory of all JSON bodies that a node has read for attributes and not yet passed on.
const JSONBodies = 128 << 20

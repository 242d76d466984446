// Package bounds says how large a request may be. Every API checks requests against these constants, and
// the rules document allows names of the same lengths: a rule can match whatever an API accepts.
package bounds

// Bounds of a request, in bytes where it is not a count.
const (
	Domain         = 255
	Attributes     = 256 // how many
	AttributeName  = 128
	AttributeValue = 8 << 10
	CallID         = 8 << 10
)

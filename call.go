package penstock

import "time"

// A Call is what is known of one request: who decides about it matches it against rules.
type Call struct {
	Domain     string      // the empty one is DefaultDomain
	Attributes []Attribute // ip, method, host, path, and whatever else; no name twice
	Cost       int64       // 0 is a peek: what would be decided, without charging
	ID         string      // what the caller calls it, for recognising a repeat; may be empty

	// MaxDelay is how long the call can be held for a leaky bucket. A door that cannot hold calls
	// leaves it 0: those that would have to wait are denied.
	MaxDelay time.Duration

	// Reserve asks for a reservation of the rules that allow one, for so long as they say, or for
	// TTL.
	Reserve bool
	TTL     time.Duration

	// Named says that what the call takes can be given back by its ID, where the engine allows that. No two
	// calls under way may have the same ID.
	Named bool
}

// DefaultDomain is the domain of calls and rules that name none.
const DefaultDomain = "default"

// Attribute returns the value of an attribute, and whether the call has it.
func (c *Call) Attribute(name string) (value string, ok bool) {
	for i := range c.Attributes {
		if c.Attributes[i].Name == name {
			return c.Attributes[i].Value, true
		}
	}
	return "", false
}

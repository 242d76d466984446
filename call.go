package penstock

import "time"

// A Call describes one request: a Decider matches its attributes against rules.
type Call struct {
	Domain     string      // empty means DefaultDomain
	Attributes []Attribute // ip, method, host, path and others; each name at most once
	Cost       int64       // 0 is a peek: it returns the decision without charging
	ID         string      // the client's ID of the request, to recognise a duplicate; may be empty

	// MaxDelay is how long the request can be held for a leaky bucket. An API that cannot hold requests
	// leaves it 0: requests that would have to wait are denied.
	MaxDelay time.Duration

	// Reserve asks for a reservation under the rules that allow one. It stays open for the time the rules
	// set, or for TTL.
	Reserve bool
	TTL     time.Duration

	// Named says that what the request takes can be given back by its ID, if the engine allows that. No two
	// running requests may have the same ID.
	Named bool

	// CacheBy are the attributes that a cache of denials in front of the program tells requests apart by; none: it has
	// no such cache. See [Verdict.CacheFor].
	CacheBy []string
}

// DefaultDomain is the domain of requests and rules that do not name one.
const DefaultDomain = "default"

// Attribute returns the value of an attribute, and whether the request has it.
func (c *Call) Attribute(name string) (value string, ok bool) {
	for i := range c.Attributes {
		if c.Attributes[i].Name == name {
			return c.Attributes[i].Value, true
		}
	}
	return "", false
}

package penstock

import "math/rand/v2"

// newNonce returns a name for what a ticket takes. It is the only random number in this package, and no
// decision depends on it.
func newNonce() uint64 { return rand.Uint64() | 1 }

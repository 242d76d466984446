package penstock

import "math/rand/v2"

// newNonce names what a ticket takes. It decides nothing, and so is the only random number of this
// package.
func newNonce() uint64 { return rand.Uint64() | 1 }

package algorithm

import (
	"math"
	"math/bits"
)

// A divisor is a positive number to divide by many times. Multiplying by its reciprocal is exact here, and many
// processors take as long for one division as for the rest of a decision.
type divisor struct {
	by         int64
	reciprocal uint64 // 2^64 / by, rounded down
}

func newDivisor(by int64) divisor { return divisor{by, math.MaxUint64 / uint64(by)} }

// floor returns n / d. The product is at most 1 too low for numbers that fit into 63 bits.
func (d *divisor) floor(n int64) int64 {
	if n < 0 {
		return n / d.by
	}
	high, _ := bits.Mul64(uint64(n), d.reciprocal)
	q := int64(high)
	if n-q*d.by >= d.by {
		q++
	}
	return q
}

// ceil returns n / d, rounded up.
func (d *divisor) ceil(n int64) int64 { return d.floor(n + d.by - 1) }

// multiple returns the greatest multiple of d up to an instant.
func (d *divisor) multiple(i Instant) Instant { return Instant(d.floor(int64(i)) * d.by) }

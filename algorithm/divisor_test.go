package algorithm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDivisor compares with the processor's division, at the numbers beside multiples and at random ones.
func TestDivisor(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	numbers := []int64{1, 2, 3, 5, 7, 10, 1000, 1 << 20, 1<<20 + 1, 3_600_000_000, 1<<52 - 1, 1 << 53, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	for range 2000 {
		numbers = append(numbers, max(1, random.Int64()>>random.IntN(63)))
	}
	check := func(n, by int64) {
		d := newDivisor(by)
		if got := d.floor(n); got != n/by {
			t.Fatalf("%d / %d = %d, want %d", n, by, got, n/by)
		}
		if n <= math.MaxInt64-by && d.ceil(n) != ceilDiv(n, by) {
			t.Fatalf("%d / %d rounded up = %d, want %d", n, by, d.ceil(n), ceilDiv(n, by))
		}
		if got := d.multiple(Instant(n)); n >= 0 && int64(got) != n-n%by {
			t.Fatalf("greatest multiple of %d up to %d = %d, want %d", by, n, got, n-n%by)
		}
	}
	for _, by := range numbers {
		for _, n := range numbers {
			check(n, by)
			check(-n, by)
			check(n-n%by, by)
			check(max(0, n-n%by-1), by)
		}
		for _, n := range []int64{0, by - 1, math.MaxInt64} {
			check(n, by)
		}
	}
}

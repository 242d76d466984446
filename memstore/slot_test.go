package memstore

import (
	"math/rand/v2"
	"testing"

	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/storage"
)

// Two subjects that differ in one bit, and two limits that do, make four keys.
func TestKeysOfLikesDiffer(t *testing.T) {
	racetest.Skip(t, racetest.OneGoroutine)
	r := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		seed := r.Uint64() | 1
		a := subject(r.Uint64())
		window := uint64(3)<<52 | 60_000_000 // kind, ordinal 0, µs
		for bit := range 128 {
			b := a
			b[bit/8] ^= 1 << (bit % 8)
			for other := range 56 {
				of := func(s storage.Subject, fingerprint uint64) key { k, _ := keyOf(&s, fingerprint, seed); return k }
				alike := window ^ 1<<other
				if of(a, window) == of(b, alike) || of(a, window) == of(b, window) || of(a, window) == of(a, alike) {
					t.Fatalf("seed %#x: subject bit %d and fingerprint bit %d cancel each other out", seed, bit, other)
				}
			}
		}
	}
}

package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock/storage"
)

// workers is how many trials run at once: enough for a store behind a network to take many requests in one
// round trip.
const workers = 128

// trials runs f for 0 to n-1 on several goroutines and returns the first error. After an error no further
// trial starts.
func trials(n, atOnce int, f func(i int) error) error {
	var next atomic.Int64
	var first atomic.Pointer[error]
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for first.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}

// random returns the random source of a trial: the same for the same seed and trial, on any machine.
func random(seed uint64, trial int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(trial))) }

var (
	hasher = storage.NewHasher("storetest")
	run    = rand.Uint64() // distinguishes runs against one lasting store
	serial atomic.Uint64
)

// newSubject returns a subject that no store has seen.
func newSubject() storage.Subject {
	return hasher.Subject("storetest", fmt.Sprintf("%x-%d", run, serial.Add(1)))
}

// newSubjects returns subjects as similar as possible: each differs from the first in one bit.
func newSubjects(n int) []storage.Subject {
	cast := make([]storage.Subject, n)
	cast[0] = newSubject()
	bit := int(cast[0][0]) % 128
	for i := 1; i < n; i++ {
		cast[i] = cast[0]
		bit = (bit + 1) % 128
		cast[i][bit/8] ^= 1 << (bit % 8)
	}
	return cast
}

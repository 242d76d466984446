package section

import (
	"math/rand/v2"
	"runtime"
	"time"
)

// chase returns how long one read takes from a random place among slots of 32 bytes, each read depending on the
// one before. A decision that reads its key's state from memory waits for at least one.
func chase(slots int) time.Duration {
	table := make([][4]uint64, slots)
	order := rand.Perm(slots)
	for i, at := range order {
		table[at][0] = uint64(order[(i+1)%slots])
	}
	next := uint64(0)
	start := time.Now()
	for range slots {
		next = table[next][0]
	}
	took := time.Since(start)
	runtime.KeepAlive(next) // otherwise the compiler removes the reads
	return took / time.Duration(slots)
}

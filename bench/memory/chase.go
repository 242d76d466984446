package memory

import (
	"math/rand/v2"
	"runtime"
	"time"
)

// chase returns how long one read takes from a random place among so many slots of 32 bytes, each
// read depending on the one before. A call that finds its key's state in memory waits for one at least.
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
	runtime.KeepAlive(next) // or the compiler leaves the reads out
	return took / time.Duration(slots)
}

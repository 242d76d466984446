//go:build (!amd64 && !arm64) || race

package memstore

import "unsafe"

// Prefetching is off under the race detector, because it reads the size of a table without the lock.
const canPrefetch = false

func prefetch(unsafe.Pointer) {}

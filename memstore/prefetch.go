//go:build (amd64 || arm64) && !race

package memstore

import "unsafe"

const canPrefetch = true

// prefetch begins to fetch the cache lines from the address on, without waiting for them. Any
// address will do.
//
//go:noescape
func prefetch(address unsafe.Pointer)

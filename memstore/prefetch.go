//go:build (amd64 || arm64) && !race

package memstore

import "unsafe"

const canPrefetch = true

// prefetch starts to fetch the cache lines at the address without waiting for them. Any address is valid.
//
//go:noescape
func prefetch(address unsafe.Pointer)

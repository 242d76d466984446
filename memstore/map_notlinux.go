//go:build !linux

package memstore

import "unsafe"

const reserve = 0

func adviseHuge([]byte, bool) {}

// release does nothing: the standard library knows no way to return memory on these systems. What is
// freed is used again.
func release(unsafe.Pointer, int) {}

//go:build !linux

package memstore

import "unsafe"

const reserve = 0

func adviseHuge([]byte, bool) {}

func populate([]byte) {}

// release does nothing: the standard library cannot return memory on these systems. Freed memory is reused.
func release(unsafe.Pointer, int) {}

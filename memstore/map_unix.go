//go:build unix

package memstore

import (
	"math"
	"syscall"
)

// mapMemory returns zeroed memory that takes no room until it is touched.
func mapMemory(size int64) ([]byte, error) {
	if size > math.MaxInt {
		return nil, syscall.ENOMEM
	}
	return syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|reserve)
}

func unmapMemory(memory []byte) { syscall.Munmap(memory) }

//go:build unix

package memstore

import "syscall"

// mapMemory returns empty memory of the system's that takes no room before it is touched.
func mapMemory(size int) ([]byte, error) {
	memory, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil && size > 2*hugePage {
		adviseHuge(memory)
	}
	return memory, err
}

func unmapMemory(memory []byte) { syscall.Munmap(memory) }

package memstore

import (
	"os"
	"syscall"
	"unsafe"
)

// reserve makes the mapping address space only: the system does not commit memory for it.
const reserve = syscall.MAP_NORESERVE

// adviseHuge turns huge pages on or off. The system decides whether there are any.
func adviseHuge(memory []byte, huge bool) {
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	syscall.Madvise(memory, advice)
}

// populate takes memory from the system now. A huge page may take long to find. If the first write had to wait for it,
// so would a garbage collection that stops all goroutines: it waits for page faults, but not for system calls. Before
// Linux 5.14 this has no effect, and the first write takes the memory.
func populate(memory []byte) {
	const populateWrite = 23 // MADV_POPULATE_WRITE
	syscall.Madvise(memory, populateWrite)
}

// release returns the whole pages of a part of the mapping to the system. They read as zero afterwards.
func release(first unsafe.Pointer, size int) {
	page := uintptr(os.Getpagesize())
	skip := -uintptr(first) & (page - 1)
	if n := (uintptr(size) - min(skip, uintptr(size))) &^ (page - 1); n > 0 {
		syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(first, skip)), n), syscall.MADV_DONTNEED)
	}
}

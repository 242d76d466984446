package memstore

import (
	"os"
	"syscall"
	"unsafe"
)

// reserve makes the mapping address space only: the system sets no memory aside for it.
const reserve = syscall.MAP_NORESERVE

// adviseHuge asks for huge pages, or for none. Whether there are any is up to the system.
func adviseHuge(memory []byte, huge bool) {
	advice := syscall.MADV_NOHUGEPAGE
	if huge {
		advice = syscall.MADV_HUGEPAGE
	}
	syscall.Madvise(memory, advice)
}

// release returns the whole pages of a part of the mapping to the system. They read as zero then.
func release(first unsafe.Pointer, size int) {
	page := uintptr(os.Getpagesize())
	skip := -uintptr(first) & (page - 1)
	if n := (uintptr(size) - min(skip, uintptr(size))) &^ (page - 1); n > 0 {
		syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(first, skip)), n), syscall.MADV_DONTNEED)
	}
}

package memstore

import "syscall"

// adviseHuge asks for huge pages. Whether there are any is the system's business.
func adviseHuge(memory []byte) { syscall.Madvise(memory, syscall.MADV_HUGEPAGE) }

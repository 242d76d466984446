//go:build !unix

package memstore

import "errors"

// mapMemory allocates ordinary memory. The runtime takes it from the system where it is touched.
func mapMemory(size int64) ([]byte, error) {
	if size > largestHeap {
		return nil, errors.ErrUnsupported
	}
	return make([]byte, size), nil
}

// largestHeap keeps a large MaxBytes from crashing the process.
const largestHeap = 4 << 30

func unmapMemory([]byte) {}

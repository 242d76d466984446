//go:build !unix

package server

// OpenFiles returns how many files the process may have open.
func OpenFiles() (limit uint64, known bool) { return 0, false }

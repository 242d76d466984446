//go:build unix

package server

import "syscall"

// OpenFiles returns how many files the process may have open.
func OpenFiles() (limit uint64, known bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil
}

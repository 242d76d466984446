//go:build unix

package server

import "syscall"

// OpenFiles returns how many files the process may have open.
func OpenFiles() (limit uint64, known bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return uint64(l.Cur), err == nil
}

// connectionsOf returns how many connections a listener accepts at a time; others wait. A flood at one listener
// must leave open files for the others. 0 means no bound; the gateway has its own.
func connectionsOf(name string) int {
	const enough = 1 << 20
	limit, known := OpenFiles()
	if name == "gateway" || !known || limit > enough {
		return 0
	}
	return max(int(limit/8), 16)
}

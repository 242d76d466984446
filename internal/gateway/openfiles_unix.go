//go:build unix

package gateway

import "syscall"

// connectionsForOpenFiles leaves each client one connection to a server, and some files for the
// rest of the process, other doors among it. 0 is no bound.
func connectionsForOpenFiles() int {
	const (
		rest   = 64
		enough = 1 << 20
	)
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > enough {
		return 0
	}
	return max(int(limit.Cur-limit.Cur/4)-rest, 2) / 2
}

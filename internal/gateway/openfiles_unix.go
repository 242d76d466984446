//go:build unix

package gateway

import "syscall"

// connectionsForOpenFiles returns how many connections the limit on open files allows. It reserves a server
// connection for each client connection, and some files for the rest of the process, including its other listeners. 0
// means unbounded.
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

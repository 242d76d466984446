//go:build unix

package main

import "syscall"

// connectionsOf is how many connections a door takes at a time, the others wait: a crowd at one door
// must leave open files to the others. 0 is no bound; the gateway has its own.
func connectionsOf(door string) int {
	const enough = 1 << 20
	var limit syscall.Rlimit
	if door == "gateway" || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > enough {
		return 0
	}
	return max(int(limit.Cur/8), 16)
}

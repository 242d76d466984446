//go:build !linux

package redisstore

import "syscall"

// arrived returns false: only on Linux can it report what the kernel has received and this process has not
// read.
func arrived(syscall.RawConn, bool, uint64) bool { return false }

//go:build unix && !linux

package http1

import "syscall"

// peek returns an error if there is nothing to read, or nil.
func peek(fd uintptr) error {
	var one [1]byte
	_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err
}

package http1

import (
	"syscall"
	"unsafe"
)

// peek returns an error if there is nothing to read, or nil. See rawconn.Socket for why it does not call
// syscall.Recvfrom.
func peek(fd uintptr) error {
	var one [1]byte
	_, _, err := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	if err == 0 {
		return nil
	}
	return err
}

package lab

import (
	"syscall"
	"time"
)

// Sleep sleeps in the kernel, which is late by about 50 µs. A signal may end it early.
func Sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}

package latency

import (
	"syscall"
	"time"
)

// sleep sleeps in the kernel, which is late by about 50 µs. A signal may end it early.
func sleep(d time.Duration) {
	t := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&t, nil)
}

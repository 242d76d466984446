package race

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm sleeps with a precision of tens of microseconds. The runtime's own timers round up to a whole
// millisecond when the process is idle, which would turn a delay of half a millisecond into more than one. A
// timer that the poller watches as a file does not.
type alarm struct{ file *os.File }

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return alarm{}
	}
	return alarm{os.NewFile(uintptr(fd), "timerfd")}
}

func (a alarm) waitUntil(due time.Time) {
	left := time.Until(due)
	if left <= 0 {
		return
	}
	if a.file == nil || !a.ring(left) {
		time.Sleep(time.Until(due))
	}
}

// ring waits on the timer and reports whether it did.
func (a alarm) ring(after time.Duration) bool {
	conn, err := a.file.SyscallConn()
	if err != nil {
		return false
	}
	var setErr error
	err = conn.Control(func(fd uintptr) {
		setErr = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(after))}, nil)
	})
	if err != nil || setErr != nil {
		return false
	}
	var expirations [8]byte
	_, err = a.file.Read(expirations[:])
	return err == nil
}

func (a alarm) close() {
	if a.file != nil {
		a.file.Close()
	}
}

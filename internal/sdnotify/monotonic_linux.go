package sdnotify

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// monotonic is the time by which systemd tells reloads apart.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return ""
	}
	return fmt.Sprintf("\nMONOTONIC_USEC=%d", now.Nano()/1000)
}

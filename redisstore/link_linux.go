package redisstore

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived reports whether the kernel has something for this process that it has not taken notice
// of: a connection that is made, or more bytes than were read. Of a Unix socket it knows only whether
// bytes wait.
func arrived(socket syscall.RawConn, connected bool, read uint64) bool {
	var info *unix.TCPInfo
	var err, unknown error
	waiting := 0
	if failed := socket.Control(func(fd uintptr) {
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err != nil {
			waiting, unknown = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		}
	}); failed != nil {
		return false
	}
	if err != nil {
		return unknown == nil && connected && waiting > 0
	}
	if !connected {
		const established = 1
		return info.State == established
	}
	return info.Bytes_received > read
}

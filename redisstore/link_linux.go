package redisstore

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived reports whether the kernel has something that this process has not seen yet: an established
// connection, or more bytes than were read. For a Unix socket, the kernel knows only whether bytes are
// waiting.
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

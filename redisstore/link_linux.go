package redisstore

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// arrived reports whether the kernel has something for this process that it has not taken notice
// of: a connection that is made, or more bytes than were read.
func arrived(socket syscall.RawConn, connected bool, read uint64) bool {
	var info *unix.TCPInfo
	var err error
	if failed := socket.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); failed != nil || err != nil {
		return false
	}
	if !connected {
		const established = 1
		return info.State == established
	}
	return info.Bytes_received > read
}

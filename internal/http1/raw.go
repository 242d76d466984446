package http1

import (
	"net"
	"syscall"
)

// rawOf returns the socket of a connection, or nil if it is not a socket.
func rawOf(c net.Conn) syscall.RawConn {
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

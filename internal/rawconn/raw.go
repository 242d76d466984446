package rawconn

import (
	"net"
	"syscall"
)

// rawOf returns the socket of a connection, or nil if the connection does not give it.
func rawOf(c net.Conn) syscall.RawConn {
	if socket, ok := c.(syscall.Conn); ok {
		if raw, err := socket.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Raw returns the socket of the connection, or nil if it is not a socket: it is then read and written by its own
// methods.
func (s *Socket) Raw() syscall.RawConn { return s.raw }

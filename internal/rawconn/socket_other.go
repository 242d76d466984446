//go:build !linux || race

package rawconn

import (
	"net"
	"syscall"
)

// A Socket reads from and writes to a connection, here as the net package does.
type Socket struct {
	net.Conn
	raw syscall.RawConn // nil: it has none
}

// Init makes the socket that of a connection.
func (s *Socket) Init(c net.Conn) { s.Conn, s.raw = c, rawOf(c) }

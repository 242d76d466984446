//go:build !linux || race

package http1

import (
	"net"
	"syscall"
)

// A socket reads from and writes to a connection. On Linux it takes less processor time than the net package.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil: it has none
}

func (s *socket) init(c net.Conn) { s.Conn, s.raw = c, rawOf(c) }

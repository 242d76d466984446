package redisdial

import (
	"errors"
	"fmt"
	"net"
)

// Limits bound what a connection may receive at a time.
type Limits struct {
	Bytes    int // of a reply or a message
	Elements int // of all its arrays and maps together
}

// ErrReply is wrapped by the errors of connections whose server sent what no Redis server sends.
var ErrReply = errors.New("not a valid reply of Redis")

// A guard is a connection that breaks before it passes on what the client library cannot bear. The library reads in
// goroutines of its own where nothing recovers from a panic, and it allocates what a reply announces: a length that is
// negative or huge ends the process, and so does a reply to no command. The server, or anybody between, must not be
// able to do that.
//
// It follows the framing of what passes in both directions and copies nothing. It is stricter than the library, so that
// both always agree on where a message ends. Streamed strings and arrays ($?, *?), which no server sends, are refused.
type guard struct {
	net.Conn
	in  reader
	out writer
}

// Guard returns the connection with a guard. Use it above TLS.
func Guard(c net.Conn, l Limits) net.Conn {
	g := &guard{Conn: c}
	g.in.limits, g.in.book = l, &g.out.book
	return g
}

// Read returns what the connection has received, if it is valid so far.
func (g *guard) Read(p []byte) (int, error) {
	if g.in.broken != nil {
		return 0, g.in.broken
	}
	n, err := g.Conn.Read(p)
	if n > 0 {
		if bad := g.in.follow(p[:n]); bad != nil {
			g.in.broken = fmt.Errorf("%w: %w", ErrReply, bad)
			return 0, g.in.broken
		}
	}
	return n, err
}

// Write writes commands. They count as sent before they are, because the reply may arrive before Write returns.
func (g *guard) Write(p []byte) (int, error) {
	if err := g.out.follow(p); err != nil {
		return 0, err
	}
	return g.Conn.Write(p)
}

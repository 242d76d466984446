package gateway

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// Hijack takes over the client's connection for a WebSocket. The connection is closed after a period without traffic
// in either direction.
func (w *pacedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.tunnel > 0 {
		t := &tunnel{Conn: conn, rests: w.tunnel}
		t.used(time.Now())
		conn = t
	}
	return conn, buffered, err
}

// A tunnel is a connection whose deadline moves with every byte.
type tunnel struct {
	net.Conn
	rests time.Duration
}

func (t *tunnel) used(now time.Time) { t.Conn.SetDeadline(now.Add(t.rests)) }

func (t *tunnel) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.used(time.Now())
	}
	return n, err
}

func (t *tunnel) Write(p []byte) (int, error) {
	t.used(time.Now())
	return t.Conn.Write(p)
}

// CloseWrite closes one direction, after the other side has closed it.
func (t *tunnel) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A cancellingConn cancels its request as soon as something was written or read, and waits until that has interrupted
// the connection.
type cancellingConn struct {
	net.Conn
	cancel      context.CancelFunc
	onWrite     bool // otherwise on a read
	interrupted chan struct{}
}

func (c *cancellingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.onWrite {
		c.cancel()
		<-c.interrupted
	}
	return n, err
}

func (c *cancellingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.onWrite && n > 0 {
		c.cancel()
		<-c.interrupted
	}
	return n, err
}

func (c *cancellingConn) SetDeadline(t time.Time) error {
	defer close(c.interrupted)
	return c.Conn.SetDeadline(t)
}

// A connection that was interrupted stays interrupted, although the deadline for the head is set or lifted afterwards.
func TestInterruptedForGood(t *testing.T) {
	for name, onWrite := range map[string]bool{"before the head": true, "before the body": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				here, there := net.Pipe()
				defer time.AfterFunc(time.Hour, func() { there.Close() }).Stop()
				go func() {
					http.ReadRequest(bufio.NewReader(there))
					if !onWrite {
						io.WriteString(there, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
					}
				}()
				conn := &cancellingConn{Conn: here, cancel: cancel, onWrite: onWrite, interrupted: make(chan struct{})}
				c := NewClient(ClientOptions{
					Dial:           func(context.Context) (net.Conn, error) { return conn, nil },
					ResponseHeader: time.Hour, MaxHeaderBytes: maxTestHead, MaxIdle: 1, Idle: time.Hour,
				})
				req, err := http.NewRequestWithContext(ctx, "GET", "http://upstream/", nil)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				res, err := c.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(res.Body)
				}
				if took := time.Since(begun); took > 0 || !errors.Is(err, context.Canceled) {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

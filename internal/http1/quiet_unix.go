//go:build unix

package http1

import "syscall"

// isQuiet reports whether the server has neither closed an idle connection nor sent anything on it. What it sent would
// be taken for the response to the next request.
func (c *clientConn) isQuiet() bool {
	quiet := false
	err := c.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EINTR
	})
	return err == nil && quiet
}

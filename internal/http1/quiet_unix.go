//go:build unix

package http1

import (
	"errors"
	"syscall"
)

// isQuiet reports whether the server has neither closed an idle connection nor sent anything on it. What it sent would
// be taken for the response to the next request.
func (c *clientConn) isQuiet() bool {
	if c.peek == nil {
		c.peek = func(fd uintptr) {
			err := peek(fd)
			c.isSilent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
		}
	}
	c.isSilent = false
	return c.Raw().Control(c.peek) == nil && c.isSilent
}

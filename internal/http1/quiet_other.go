//go:build !unix

package http1

// isQuiet reports whether an idle connection can be used again. It is not known here, so each is used once.
func (c *clientConn) isQuiet() bool { return false }

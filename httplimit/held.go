package httplimit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxHeldBody is how much of a held call's body is kept in memory.
const maxHeldBody = 64 << 10

// hold returns when the call may go on. With an error it must not: its client is gone, or too many
// are held.
func (l *Limiter) hold(req *http.Request, delay time.Duration) error {
	departs := time.Now().Add(delay)
	if err := readAhead(req); err != nil {
		return fmt.Errorf("read the body of a call to be held: %w", err)
	}
	if err := l.held.hold(req.Context(), time.Until(departs)); err != nil {
		return fmt.Errorf("hold a call for %v: %w", delay, err)
	}
	l.held.left()
	return nil
}

// readAhead reads a body that is not too large: only then does net/http notice that a client has
// gone. One that is too large is passed on as if it had not been touched.
func readAhead(req *http.Request) error {
	if req.Body == nil || req.Body == http.NoBody || req.ContentLength > maxHeldBody {
		return nil
	}
	read, err := io.ReadAll(io.LimitReader(req.Body, maxHeldBody+1))
	if err != nil {
		return err
	}
	var body io.Reader = bytes.NewReader(read)
	if len(read) > maxHeldBody {
		body = io.MultiReader(body, req.Body)
	}
	req.Body = readBody{body, req.Body}
	return context.Cause(req.Context())
}

type readBody struct {
	io.Reader
	io.Closer
}

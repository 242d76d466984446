package httplimit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/held"
)

const (
	// maxReadAhead is how much of a held request's body is read while it is held.
	maxReadAhead = 4 << 10

	// bytesPerHeader is what net/http keeps of a header line besides its name and value.
	bytesPerHeader = 128
)

// HeldStats describe the requests that leaky buckets delay.
type HeldStats struct {
	Requests int              // held now
	Bytes    int64            // the memory that they take, as counted for MaxHeldBytes
	Refused  map[string]int64 // since the start, by rule: beyond MaxHeld or MaxHeldBytes
}

// Held returns what is held now, and what was refused.
func (l *Limiter) Held() (s HeldStats) {
	s.Requests, s.Bytes, s.Refused = l.held.Stats()
	return s
}

// hold returns when the request may proceed. With an error it must not: its client has disconnected, or there
// is no room to hold it.
func (l *Limiter) hold(req *http.Request, v *penstock.Verdict) error {
	departs := time.Now().Add(v.Delay)
	place, err := l.held.Join(held.RuleOf(v), heldBytes(req))
	if err != nil {
		return err
	}
	defer place.Leave()
	if err := readAhead(req); err != nil {
		return fmt.Errorf("read the body of a request to be held: %w", err)
	}
	if err := place.Wait(req.Context(), departs); err != nil {
		return fmt.Errorf("hold a request for %v: %w", v.Delay, err)
	}
	return nil
}

// heldBytes estimates the memory of a request while it is held.
func heldBytes(req *http.Request) int64 {
	n := int64(held.BytesPerRequest + len(req.RequestURI))
	for name, lines := range req.Header {
		n += int64(len(name))
		for _, line := range lines {
			n += int64(bytesPerHeader + len(line))
		}
	}
	body := int64(maxReadAhead)
	if req.ProtoMajor >= 2 {
		body = held.MaxUnread
	}
	if req.ContentLength >= 0 { // otherwise unknown
		body = min(body, req.ContentLength)
	}
	if b, ok := req.Body.(*bufferedBody); ok { // it was already read
		body = max(body, b.memory.Load())
	}
	return n + body
}

// readAhead reads a small body, because only then does net/http notice that the client of an HTTP/1.1
// connection has disconnected. What is not read stays with the client, or in the system's buffers. A body
// that is too large is passed on as if it had not been read. HTTP/2 does not need this.
func readAhead(req *http.Request) error {
	if req.ProtoMajor >= 2 || req.Body == nil || req.Body == http.NoBody || req.ContentLength > maxReadAhead {
		return nil
	}
	read, err := io.ReadAll(io.LimitReader(req.Body, maxReadAhead+1))
	if err != nil {
		return err
	}
	var body io.Reader = bytes.NewReader(read)
	if len(read) > maxReadAhead {
		body = io.MultiReader(body, req.Body)
	}
	req.Body = readBody{body, req.Body}
	return context.Cause(req.Context())
}

type readBody struct {
	io.Reader
	io.Closer
}

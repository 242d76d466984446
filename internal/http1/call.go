package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
)

// A Call is a common request on an idle connection, and its response. It takes less processor time than RoundTrip:
// this package writes the request, and reads the response if that is a common one.
//
// Begin and Send come first, then IsCommon, and then either CopyBody or Response. Close is necessary in any case. The
// memory of a call can be used for the next one.
type Call struct {
	conn   *clientConn // nil: it has not begun, or has ended
	ctx    context.Context
	fields []Field
	Head
}

// A Field is a header with its lines.
type Field struct {
	Name  string
	Lines []string
}

// Begin begins a call. It returns false if no connection is idle.
func (c *Call) Begin(client *Client) bool {
	c.conn = client.reuse()
	return c.conn != nil
}

// Fields returns memory for the header of the request.
func (c *Call) Fields() []Field { return c.fields[:0] }

// Send sends a request without a body, and waits for the first part of the response. The target and the host must be
// those of a request that this package has parsed, and so must the names and the lines of the header, which is sorted
// here. The bytes are those of an http.Request's Write.
//
// The error is ErrNoResponse if the request can be sent again.
func (c *Call) Send(ctx context.Context, method, target, host string, header []Field) error {
	conn := c.conn
	c.ctx, c.fields = ctx, header
	conn.request = appendRequest(conn.request[:0], method, target, host, header)
	conn.watch(ctx)
	if err := conn.send(); err != nil {
		return c.cause(err)
	}
	return nil
}

// cause returns the error of the context, if it has ended: what it interrupts fails for other reasons.
func (c *Call) cause(err error) error {
	if cancelled := c.ctx.Err(); cancelled != nil {
		return cancelled
	}
	return err
}

func appendRequest(b []byte, method, target, host string, header []Field) []byte {
	slices.SortFunc(header, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	b = append(append(append(b, method...), ' '), target...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	const agent = "User-Agent" // net/http sends it first, and once
	for i := range header {
		if f := &header[i]; f.Name == agent && len(f.Lines) > 0 && f.Lines[0] != "" {
			b = appendLines(b, agent, f.Lines[:1])
		}
	}
	for i := range header {
		if f := &header[i]; f.Name != agent {
			b = appendLines(b, f.Name, f.Lines)
		}
	}
	return append(b, "\r\n"...)
}

// IsCommon reads the head of the response to a request, if it is a common one. Otherwise it changes nothing: net/http
// reads the response.
func (c *Call) IsCommon(method string) bool {
	reader := c.conn.reader
	arrived, _ := reader.Peek(reader.Buffered()) // cannot fail
	n := headLength(arrived)
	if n == 0 || !c.parse(string(arrived[:n]), method == http.MethodHead) {
		return false
	}
	_, _ = reader.Discard(n) // cannot fail
	c.conn.left = math.MaxInt64
	c.conn.beginBody(c.Length)
	return true
}

// bodies are buffers for bodies that do not arrive along with their head.
var bodies = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// CopyBody writes the body of a common response. A body that ends too early is an error.
func (c *Call) CopyBody(w io.Writer) error {
	reader := c.conn.reader
	if int64(reader.Buffered()) >= c.Length {
		whole, _ := reader.Peek(int(c.Length)) // cannot fail
		if len(whole) > 0 {
			if _, err := w.Write(whole); err != nil {
				return err
			}
		}
		_, _ = reader.Discard(len(whole)) // cannot fail
	} else if err := c.copyLong(w); err != nil {
		return err
	}
	c.end(!c.isLast)
	return nil
}

func (c *Call) copyLong(w io.Writer) error {
	buffer := bodies.Get().(*[32 << 10]byte)
	defer bodies.Put(buffer)
	for left := c.Length; left > 0; {
		n, err := c.conn.reader.Read(buffer[:min(left, int64(len(buffer)))])
		left -= int64(n)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) && left > 0:
			return io.ErrUnexpectedEOF
		case left > 0:
			return c.cause(fmt.Errorf("read the body of the response: %w", err))
		}
	}
	return nil
}

// Response returns a response that is not a common one. The call ends with its body.
func (c *Call) Response(req *http.Request) (*http.Response, error) {
	res, err := c.conn.receive(req, httptrace.ContextClientTrace(req.Context()))
	if err != nil {
		return nil, c.cause(err)
	}
	c.release() // the connection is the body's
	return res, nil
}

// Close closes the connection, unless the whole response was read.
func (c *Call) Close() { c.end(false) }

func (c *Call) end(reusable bool) {
	if conn := c.conn; conn != nil {
		c.release()
		conn.end(reusable)
	}
}

// release forgets the request and the connection, which another request may use afterwards.
func (c *Call) release() {
	c.conn, c.ctx = nil, nil
	clear(c.fields)
}

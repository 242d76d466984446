package httplimit

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/bounds"
	"github.com/penstock-io/penstock/internal/jsonscan"
)

// defaultMaxJSON is how much of a body is read for attributes by default.
const defaultMaxJSON = 1 << 20

// A BodyError says why a body lacks what rules read from it: attributes and costs then have their defaults.
type BodyError struct {
	Reason string // one of the reasons below, for counting
	Err    error  // the details; may be nil
}

// Reasons of a [BodyError].
const (
	BodyNotJSON  = "not_json"  // the request's body is not a JSON object
	BodyTooLarge = "too_large" // it is larger than is read
	BodyEncoding = "encoding"  // it is compressed in a way that is not read
	BodyMemory   = "memory"    // the bodies of other requests take all memory for them
	BodyValue    = "value"     // a field is an object or array, or too long
	BodyNoUsage  = "no_usage"  // the response does not report what it cost, or is compressed in a way that is not read
)

func (e *BodyError) Error() string {
	if e.Err == nil {
		return "body: " + e.Reason
	}
	return fmt.Sprintf("body: %s: %v", e.Reason, e.Err)
}

func (e *BodyError) Unwrap() error { return e.Err }

// A bodyPart is what the rules read from JSON bodies.
type bodyPart struct {
	sources []attribute.Source
	fields  *jsonscan.Fields
}

// newBodyPart returns nil if the rules read nothing from bodies.
func newBodyPart(parts []attribute.Source) *bodyPart {
	b := &bodyPart{}
	var paths [][]string
	for _, s := range parts {
		if s.JSON != "" {
			b.sources = append(b.sources, s)
			paths = append(paths, []string{s.JSON})
		}
	}
	if len(paths) == 0 {
		return nil
	}
	b.fields = jsonscan.Compile(paths...)
	return b
}

// read adds the attributes of the body, and leaves the whole body for the next reader. If the body does not have an
// attribute, the request has its default: otherwise a body that only the upstream server can read would escape the
// rules. As with a header, a request that has a field twice is rejected.
func (b *bodyPart) read(r *Reader, req *http.Request, c *penstock.Call) error {
	s := jsonscan.New(b.fields, MaxValue, false)
	var problem *BodyError
	if req.Body != nil && req.Body != http.NoBody {
		text, err := r.readBody(req)
		if problem, err = asBodyError(err); err != nil {
			return err
		}
		if problem == nil && !isObject(text, s) {
			problem = &BodyError{Reason: BodyNotJSON, Err: s.Close()}
		}
	}
	for i := range b.sources {
		from, value := &b.sources[i], jsonscan.Value{}
		if problem == nil {
			value = s.Value(i)
		}
		if value.Times > 1 {
			return refuse(http.StatusBadRequest, "the body has the field %s (attribute %s) more than once", from.JSON, from.Attribute)
		}
		text := value.Text
		switch {
		case value.Kind == jsonscan.Composite, value.Long:
			r.warn(req, &BodyError{Reason: BodyValue, Err: fmt.Errorf("the field %s is an object or array, or has more than %d bytes", from.JSON, MaxValue)})
			text = from.Default
		case value.Kind == jsonscan.Missing, value.Kind == jsonscan.Null:
			text = from.Default
		}
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: from.Attribute, Value: text})
	}
	if problem != nil {
		r.warn(req, problem)
	}
	return nil
}

// isObject scans a text and reports whether it is a JSON object.
func isObject(text []byte, s *jsonscan.Scanner) bool {
	_, _ = s.Write(text)
	return s.Close() == nil && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// asBodyError separates bodies that are not read from those that cannot be: these reject the request.
func asBodyError(err error) (*BodyError, error) {
	var unread *BodyError
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return nil, nil
	case errors.As(err, &unread):
		return unread, nil
	case errors.As(err, &tooLarge):
		return nil, &RequestError{Status: http.StatusRequestEntityTooLarge, Detail: "the body is too large", Err: err}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &RequestError{Status: http.StatusRequestTimeout, Detail: "the body was sent too slowly", Err: err}
	}
	return nil, &RequestError{Status: http.StatusBadRequest, Detail: "the body could not be read", Err: err}
}

func (r *Reader) warn(req *http.Request, problem *BodyError) {
	if r.options.OnBody != nil {
		r.options.OnBody(req, problem)
	}
}

// readBody returns the text of a body, and replaces the body with one that begins with what was read. A *BodyError
// says why a body is not read, or not as a whole.
func (r *Reader) readBody(req *http.Request) ([]byte, error) {
	most := r.options.MaxJSON
	if req.ContentLength > most {
		return nil, &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("%d bytes; at most %d", req.ContentLength, most)}
	}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(req.Header["Content-Encoding"], ",")))
	if encoding != "" && encoding != "identity" && encoding != "gzip" {
		return nil, &BodyError{Reason: BodyEncoding, Err: fmt.Errorf("the encoding is %.64q; only gzip is supported", encoding)}
	}
	b := &bufferedBody{rest: req.Body, bodies: &r.bodies}
	err := b.fill(most)
	b.next, req.Body = b.read, b
	if err != nil || encoding != "gzip" {
		return b.read, err
	}
	return unzip(b.read, most)
}

func unzip(packed []byte, most int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, &BodyError{Reason: BodyNotJSON, Err: err}
	}
	text, err := io.ReadAll(io.LimitReader(z, most+1))
	if err != nil {
		return nil, &BodyError{Reason: BodyNotJSON, Err: err}
	}
	if int64(len(text)) > most {
		return nil, &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("more than %d bytes when decompressed", most)}
	}
	return text, nil
}

// A bufferedBody is a body whose beginning was read. It returns that again, and then the rest. A transport may read it
// while the handler releases it.
type bufferedBody struct {
	read   []byte        // what was read
	next   []byte        // of that, what is to be returned
	rest   io.ReadCloser // the original body
	begun  atomic.Bool   // something was returned
	bodies *atomic.Int64 // memory of all such bodies
	memory atomic.Int64  // of this one, as counted there
}

// fill reads the body. It stops beyond the given number of bytes.
func (b *bufferedBody) fill(most int64) error {
	for {
		if len(b.read) == cap(b.read) {
			if err := b.grow(most); err != nil {
				return err
			}
		}
		n, err := b.rest.Read(b.read[len(b.read):cap(b.read)])
		b.read = b.read[:len(b.read)+n]
		switch {
		case errors.Is(err, io.EOF) && int64(len(b.read)) <= most:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		}
	}
}

// grow makes room for more than was read.
func (b *bufferedBody) grow(most int64) error {
	const first = 4 << 10
	have := int64(cap(b.read))
	if int64(len(b.read)) > most {
		return &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("more than %d bytes", most)}
	}
	size := min(max(2*have, first), most+1)
	if b.bodies.Add(size-have) > bounds.JSONBodies {
		b.bodies.Add(have - size)
		return &BodyError{Reason: BodyMemory, Err: fmt.Errorf("bodies take more than %d bytes", bounds.JSONBodies)}
	}
	b.memory.Add(size - have)
	b.read = append(make([]byte, 0, size), b.read...)
	return nil
}

// Begun reports whether any part of the body was passed on.
func (b *bufferedBody) Begun() bool { return b.begun.Load() }

func (b *bufferedBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	if len(b.next) == 0 {
		b.read, b.next = nil, nil
		b.release()
		return b.rest.Read(p)
	}
	n := copy(p, b.next)
	b.next = b.next[n:]
	return n, nil
}

// Close closes the original body.
func (b *bufferedBody) Close() error {
	b.release()
	return b.rest.Close()
}

// release stops counting the memory: the body was passed on, or its request has ended.
func (b *bufferedBody) release() { b.bodies.Add(-b.memory.Swap(0)) }

package httplimit

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/jsonscan"
	"github.com/penstock-io/penstock/internal/spelling"
)

// defaultMaxJSON is how much of a body is read for attributes by default.
const defaultMaxJSON = 1 << 20

// A BodyError says why a body cannot be read for rules.
type BodyError struct {
	Reason string // one of the reasons below, for counting
	Err    error  // the details; may be nil
	Denied bool   // the request is denied for it; otherwise attributes and costs have their defaults
}

// Reasons of a [BodyError].
const (
	BodyNotJSON  = "not_json"  // the request's body is not a JSON object
	BodyTooLarge = "too_large" // it is larger than is read
	BodyEncoding = "encoding"  // it is compressed in a way that is not read
	BodyMemory   = "memory"    // its client, or the node, has no memory left for bodies
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

// refusal returns what a client is told whose request is denied because of its body.
func (e *BodyError) refusal() *RequestError {
	switch e.Reason {
	case BodyTooLarge:
		return &RequestError{Status: http.StatusRequestEntityTooLarge, Detail: "the JSON body is too large", Err: e}
	case BodyMemory:
		return &RequestError{Status: http.StatusServiceUnavailable, Detail: "too many bodies of requests are being read", Err: e}
	case BodyEncoding:
		return &RequestError{Status: http.StatusBadRequest, Detail: "the JSON body is compressed other than by gzip", Err: e}
	case BodyValue:
		return &RequestError{Status: http.StatusBadRequest, Detail: "a field of the JSON body is an object or array, or too long", Err: e}
	}
	return &RequestError{Status: http.StatusBadRequest, Detail: "the body is not a valid JSON object", Err: e}
}

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

// read adds the attributes of the body, and leaves the whole body for the next reader. An attribute that the body does
// not have has its default. What becomes of a request whose body may have it and cannot be read is up to its source. As
// with a header, a request that has a field twice is rejected.
func (b *bodyPart) read(r *Reader, req *http.Request, c *penstock.Call) error {
	s := jsonscan.New(b.fields, MaxValue, false)
	var problem *BodyError
	if hasBody(req) {
		var err error
		client, _ := c.Attribute("ip")
		if problem, err = asBodyError(r.scanBody(req, s, client, b.denies(r, c))); err != nil {
			return err
		}
	}
	for i := range b.sources {
		from := &b.sources[i]
		text, of, err := valueOf(from, s.Value(i), problem)
		if err != nil {
			return err
		}
		if of != nil && from.OnUnreadable == attribute.DenyUnreadable && r.options.NeedsField(c, from.Attribute) {
			of.Denied = true
			r.warn(req, of)
			return of.refusal()
		}
		if of != nil && of != problem {
			r.warn(req, of)
		}
		c.Attributes = append(c.Attributes, penstock.Attribute{Name: from.Attribute, Value: text})
	}
	if problem != nil {
		r.warn(req, problem)
	}
	return nil
}

func hasBody(req *http.Request) bool {
	return req.Body != nil && req.Body != http.NoBody && req.ContentLength != 0
}

// denies reports whether a request is denied if its body cannot be read.
func (b *bodyPart) denies(r *Reader, c *penstock.Call) bool {
	return slices.ContainsFunc(b.sources, func(s attribute.Source) bool {
		return s.OnUnreadable == attribute.DenyUnreadable && r.options.NeedsField(c, s.Attribute)
	})
}

// valueOf returns the value of an attribute, and why it could not be read, if it could not. A problem is one of the
// whole body.
func valueOf(from *attribute.Source, value jsonscan.Value, problem *BodyError) (string, *BodyError, error) {
	switch {
	case problem != nil:
		return from.Default, problem, nil
	case value.Times > 1:
		return "", nil, refuse(http.StatusBadRequest, "the body has the field %s (attribute %s) more than once", from.JSON, from.Attribute)
	case value.Kind == jsonscan.Composite, value.Long:
		return from.Default, &BodyError{Reason: BodyValue, Err: fmt.Errorf("the field %s is an object or array, or has more than %d bytes", from.JSON, MaxValue)}, nil
	case value.Kind == jsonscan.Missing, value.Kind == jsonscan.Null:
		return from.Default, nil, nil
	case value.Kind == jsonscan.Number:
		form, ok := spelling.Number(value.Text)
		if !ok {
			return from.Default, &BodyError{Reason: BodyValue, Err: fmt.Errorf("the field %s is a number beyond 1.8e308", from.JSON)}, nil
		}
		return form, nil, nil
	}
	return value.Text, nil, nil
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

// scanBody scans a JSON body, and replaces the body with one that begins with what was read. Of another body it reads
// no more than its beginning. A *BodyError says why a body is not read, or not as a whole.
func (r *Reader) scanBody(req *http.Request, s *jsonscan.Scanner, client string, denies bool) error {
	most := r.options.MaxJSON
	isJSON := declaresJSON(req.Header["Content-Type"])
	if isJSON && req.ContentLength > most {
		return &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("%d bytes; at most %d", req.ContentLength, most)}
	}
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(req.Header["Content-Encoding"], ",")))
	isPacked := encoding == "gzip"
	if encoding != "" && encoding != "identity" && !isPacked {
		if !isJSON {
			return nil
		}
		return &BodyError{Reason: BodyEncoding, Err: fmt.Errorf("the encoding is %.64q; only gzip is supported", encoding)}
	}
	b := newBufferedBody(req.Body, &r.bodies, client, denies)
	begins := begins
	if isPacked {
		begins = packedBegins
	}
	err := b.fill(most, func(text []byte) bool { return isJSON || begins(text) })
	b.next, req.Body = b.read, b
	switch {
	case err != nil || b.other || len(b.read) == 0:
		return err
	case isPacked:
		return unzip(b.read, most, s)
	}
	return scan(b.read, s)
}

// scan scans a text, which must be a JSON object.
func scan(text []byte, s *jsonscan.Scanner) error {
	o := objectScanner{Scanner: s}
	_, _ = o.Write(text)
	return o.end()
}

// An objectScanner scans a text that must be an object.
type objectScanner struct {
	*jsonscan.Scanner
	first byte // other than space; 0: none has come
}

func (o *objectScanner) Write(p []byte) (int, error) {
	if o.first == 0 {
		if rest := bytes.TrimLeft(p, jsonSpace); len(rest) > 0 {
			o.first = rest[0]
		}
	}
	return o.Scanner.Write(p)
}

func (o *objectScanner) end() error {
	if err := o.Close(); err != nil || o.first != '{' {
		return &BodyError{Reason: BodyNotJSON, Err: err}
	}
	return nil
}

const jsonSpace = " \t\r\n"

// declaresJSON reports whether a media type is one of JSON.
func declaresJSON(contentType []string) bool {
	for _, line := range contentType {
		if strings.Contains(strings.ToLower(line), "json") {
			return true
		}
	}
	return false
}

// begins reports whether a text of another or no media type begins like JSON, or may still do so: servers that ignore
// the media type read it as that.
func begins(text []byte) bool {
	text = bytes.TrimLeft(text, jsonSpace)
	return len(text) == 0 || text[0] == '{' || text[0] == '[' || text[0] == 0xef // a byte order mark
}

// packedBegins is begins for a text that is compressed.
func packedBegins(packed []byte) bool {
	z := unzippers.Get().(*unzipper)
	defer unzippers.Put(z)
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) // more of it may follow
	}
	n, _ := io.ReadFull(z, z.text[:512])
	return begins(z.text[:n])
}

// isCostly reports whether reading the body of a request may take longer than to ask a store first.
func isCostly(req *http.Request) bool {
	const large = 16 << 10
	return req.ContentLength < 0 || req.ContentLength > large || len(req.Header["Content-Encoding"]) > 0
}

// maxRatio is how many times a JSON body may grow when it is decompressed. Large ones grow about 5 to 20 times.
const maxRatio = 100

// An unzipper is the memory for decompressing a body.
type unzipper struct {
	gzip.Reader
	text [16 << 10]byte
}

var (
	unzippers = sync.Pool{New: func() any { return new(unzipper) }}

	// unzipping bounds how many bodies are decompressed at the same time, and with that the memory for it. Other
	// requests get the rest of the processor time.
	unzipping = make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))
)

// unzip scans a body that is compressed. It never holds the whole text.
func unzip(packed []byte, most int64, s *jsonscan.Scanner) error {
	unzipping <- struct{}{}
	defer func() { <-unzipping }()
	z := unzippers.Get().(*unzipper)
	defer unzippers.Put(z)
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		return &BodyError{Reason: BodyNotJSON, Err: err}
	}
	most = min(most, maxRatio*int64(len(packed)))
	o, total := objectScanner{Scanner: s}, int64(0)
	for {
		n, err := z.Read(z.text[:])
		if total += int64(n); total > most {
			return &BodyError{Reason: BodyTooLarge, Err: fmt.Errorf("more than %d bytes when decompressed", most)}
		}
		if _, wrong := o.Write(z.text[:n]); wrong != nil {
			return &BodyError{Reason: BodyNotJSON, Err: wrong}
		}
		switch {
		case errors.Is(err, io.EOF):
			return o.end()
		case err != nil:
			return &BodyError{Reason: BodyNotJSON, Err: err}
		}
	}
}

// Package problem writes and reads problem documents (RFC 9457): the bodies of all HTTP responses with which Penstock
// itself refuses a request.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// MediaType is the media type of a problem document.
const MediaType = "application/problem+json"

// A Document is a problem document. APIs with further fields embed it.
type Document struct {
	Type   string       `json:"type,omitempty"` // about:blank if not given
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Code   string       `json:"code,omitempty"` // the reason, for programs
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"` // all errors of the request

	RetryAfter int64 `json:"-"` // seconds, sent as a header; 0: not sent
}

// A FieldError is an error at one position of a request.
type FieldError struct {
	At      string `json:"at"` // "attributes.user", "calls[3].cost"; "" for the whole request
	Message string `json:"message"`
}

func (m FieldError) String() string {
	if m.At == "" {
		return m.Message
	}
	return m.At + ": " + m.Message
}

// New returns a document whose title is the name of the status.
func New(status int, detail string) *Document {
	return &Document{Title: http.StatusText(status), Status: status, Detail: detail}
}

func (d *Document) Error() string { return d.Detail }

func (d *Document) document() *Document { return d }

// Write responds with a *Document or a struct that embeds a Document.
func Write(w http.ResponseWriter, status int, body interface{ document() *Document }) {
	text, _ := json.Marshal(body) // cannot fail for strings and numbers
	h := w.Header()
	if wait := body.document().RetryAfter; wait > 0 {
		h.Set("Retry-After", strconv.FormatInt(wait, 10))
	}
	Header(h, JSON)
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone away
}

// JSON is MediaType as a value of [Header].
var JSON = []string{MediaType}

// Header sets the headers of a response that is for this client only: no caching and no sniffing.
func Header(h http.Header, contentType []string) {
	h["Content-Type"], h["Cache-Control"], h["X-Content-Type-Options"] = contentType, noStore, noSniff
}

// Header values shared by all responses. They are never modified: http.Header.Add copies.
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// A Field is a line of a header.
type Field struct {
	Name  string
	Value []byte // without line breaks
}

// A WholeWriter is an http.ResponseWriter that can write a response at once, which saves the map of the header.
type WholeWriter interface {
	// WriteWhole writes a response whose header are the fields, which are sorted by name and include the length
	// and the type of the body, and what Header has. The client must accept it within that time, unless it is 0.
	// WriteWhole returns false, and has written nothing, if the response must be written with WriteHeader and
	// Write. It does not keep the fields or the body.
	WriteWhole(status int, fields []Field, body []byte, within time.Duration) bool
}

// Parse parses a document.
func Parse(body []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("read a problem: %w", err)
	}
	if d.Title == "" {
		return nil, errors.New("read a problem: it has no title")
	}
	return d, nil
}

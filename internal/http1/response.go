package http1

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/penstock-io/penstock/internal/problem"
)

const (
	// maxPending is how much of a body is kept back to learn its length and type, as in net/http.
	maxPending = 2 << 10

	// maxBuffered is how much of a response is collected before it is written.
	maxBuffered = 4 << 10
)

// A response is the http.ResponseWriter of one request.
type response struct {
	conn   *conn
	of     *request
	isHead bool
	header http.Header

	status      int   // 0: WriteHeader was not called
	length      int64 // of the body; -1: unknown
	written     int64 // of the body
	hasDate     bool
	hasType     bool
	isEncoded   bool // the body is compressed: its type cannot be guessed
	hasTrailers bool
	trailers    []string // as announced

	isBegun   bool // the head is complete in the buffer
	isChunked bool
	closes    bool    // the connection, afterwards
	pending   []byte  // of the body, before the head is complete
	buffer    *[]byte // what is to be written; nil: nothing
	until     time.Time
	err       error // of a write
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2*maxBuffered); return &b }}

// newResponse returns the response of a request. It reuses the memory of the last one on the connection, unless
// something may still use that.
func newResponse(c *conn, of *request) *response {
	w := c.last
	c.last = nil
	if w == nil {
		w = &response{header: make(http.Header, 8)}
	} else if len(w.header) > 0 {
		clear(w.header)
	}
	*w = response{conn: c, of: of, isHead: of.Method == http.MethodHead, header: w.header, length: -1, pending: w.pending[:0], buffer: buffers.Get().(*[]byte)}
	return w
}

var errReturned = errors.New("write a response: its handler has returned")

// release recycles the buffer. A handler that still uses the response gets errors.
func (w *response) release() {
	b := w.buffer
	w.buffer, w.err = nil, errReturned
	*b = (*b)[:0]
	buffers.Put(b)
	if !w.of.ctx.isWatched() { // nothing waited, so the handler started nothing that still runs
		w.conn.last, w.conn.memory = w, w.of.memory
	}
	w.of = nil
}

func (w *response) Header() http.Header { return w.header }

// SetWriteDeadline supports http.ResponseController. The deadline is set when something is written.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.until = t
	return nil
}

func (w *response) WriteHeader(status int) {
	if w.status != 0 || w.buffer == nil {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		w.appendStatus(status)
		w.appendFields(func(name string) bool { return name == "Content-Length" || name == "Transfer-Encoding" })
		*w.buffer = append(*w.buffer, "\r\n"...)
		w.flush()
		return
	}
	w.status = status
	h := w.header
	_, w.hasDate = h["Date"]
	_, w.hasType = h["Content-Type"]
	w.isEncoded = h.Get("Content-Encoding") != ""
	w.closes = h.Get("Connection") == "close"
	if text := h.Get("Content-Length"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			h.Del("Content-Length")
		} else {
			w.length = n
		}
	}
	w.announce()
	w.appendStatus(status)
	w.appendFields(w.isLeftOut)
}

// WriteWhole implements problem.WholeWriter, for responses whose own header has nothing but a request ID.
func (w *response) WriteWhole(status int, fields []problem.Field, body []byte, within time.Duration) bool {
	const id = "X-Request-Id"
	ids := w.header[id]
	if w.status != 0 || w.buffer == nil || !allowsBody(status) || len(w.header) != min(len(ids), 1) {
		return false
	}
	w.status, w.isBegun = status, true
	w.length, w.written = int64(len(body)), int64(len(body))
	w.appendStatus(status)
	b := *w.buffer
	for i := range fields {
		if ids != nil && fields[i].Name > id {
			b, ids = appendLines(b, id, ids), nil
		}
		b = append(append(append(b, fields[i].Name...), ": "...), fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	b = appendLines(b, id, ids)
	w.conn.now = time.Now()
	if within > 0 {
		w.until = w.conn.now.Add(within)
	}
	b = append(w.conn.server.appendDate(append(b, "Date: "...), w.conn.now), "\r\n"...)
	if w.closes = w.conn.server.stopping.Load(); w.closes {
		b = append(b, "Connection: close\r\n"...)
	}
	*w.buffer = append(b, "\r\n"...)
	w.send(body)
	return true
}

// announce notes which trailers may follow.
func (w *response) announce() {
	for name := range w.header {
		w.hasTrailers = w.hasTrailers || strings.HasPrefix(name, http.TrailerPrefix)
	}
	for _, line := range w.header["Trailer"] {
		w.hasTrailers = true
		for name := range strings.SplitSeq(line, ",") {
			if name = http.CanonicalHeaderKey(textproto.TrimString(name)); name != "" && httpguts.ValidTrailerHeader(name) {
				w.trailers = append(w.trailers, name)
			}
		}
	}
}

// isLeftOut reports whether a header is not sent: this package frames the body itself.
func (w *response) isLeftOut(name string) bool {
	switch name {
	case "Transfer-Encoding":
		return true
	case "Content-Length":
		return !allowsBody(w.status)
	case "Content-Type":
		return w.status == http.StatusNotModified
	}
	return strings.HasPrefix(name, http.TrailerPrefix)
}

func allowsBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

func (w *response) appendStatus(status int) {
	b := append(*w.buffer, "HTTP/1.1 "...)
	b = append(strconv.AppendInt(b, int64(status), 10), ' ')
	if text := http.StatusText(status); text != "" {
		b = append(b, text...)
	} else {
		b = strconv.AppendInt(append(b, "status code "...), int64(status), 10)
	}
	*w.buffer = append(b, "\r\n"...)
}

// A field is a header with its lines.
type field struct {
	name  string
	lines []string
}

// appendFields appends the header, sorted by name.
func (w *response) appendFields(isLeftOut func(string) bool) {
	var array [24]field
	fields := array[:0]
	for name, lines := range w.header {
		if !isLeftOut(name) && isName(name) {
			fields = append(fields, field{name, lines})
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	b := *w.buffer
	for i := range fields {
		b = appendLines(b, fields[i].name, fields[i].lines)
	}
	*w.buffer = b
}

func appendLines(b []byte, name string, lines []string) []byte {
	for _, line := range lines {
		b = append(append(append(b, name...), ": "...), clean(line)...)
		b = append(b, "\r\n"...)
	}
	return b
}

// isName reports whether a header may have the name. Others are not sent, as in net/http.
func isName(name string) bool {
	for i := range len(name) {
		if !isToken[name[i]] {
			return false
		}
	}
	return name != ""
}

// clean returns a value that cannot end its line.
func clean(value string) string {
	for i := range len(value) {
		if c := value[i]; c == '\r' || c == '\n' {
			value = strings.NewReplacer("\n", " ", "\r", " ").Replace(value)
			break
		}
	}
	return textproto.TrimString(value)
}

// begin completes the head. The body begins with first; if the handler has returned, that is all of it.
func (w *response) begin(first []byte, isAll bool) {
	w.isBegun = true
	b := *w.buffer
	if !w.hasDate {
		b = append(w.conn.server.appendDate(append(b, "Date: "...), time.Now()), "\r\n"...)
	}
	if allowsBody(w.status) {
		b = w.appendBodyFields(b, first, isAll)
	}
	if w.conn.server.stopping.Load() && !w.closes {
		w.closes = true
		b = append(b, "Connection: close\r\n"...)
	}
	if w.isChunked = w.length < 0 && allowsBody(w.status) && !w.isHead; w.isChunked {
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	}
	*w.buffer = append(b, "\r\n"...)
}

// appendBodyFields appends the length and the type of a body, if the handler has not said them and they are known.
func (w *response) appendBodyFields(b, first []byte, isAll bool) []byte {
	if isAll && !w.hasTrailers && w.length < 0 && (!w.isHead || len(first) > 0) {
		w.length = int64(len(first))
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), w.length, 10), "\r\n"...)
	}
	if !w.hasType && !w.isEncoded && len(first) > 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(first)...), "\r\n"...)
	}
	return b
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case len(p) == 0:
		return 0, nil
	case !allowsBody(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	n := len(p)
	if !w.isBegun && w.length >= 0 && w.hasType {
		w.begin(p, false)
	}
	if !w.isBegun {
		if len(w.pending)+len(p) <= maxPending {
			w.pending = append(w.pending, p...)
			return n, nil
		}
		if len(w.pending) == 0 {
			w.begin(p, false)
		} else {
			k := maxPending - len(w.pending)
			w.pending, p = append(w.pending, p[:k]...), p[k:]
			w.begin(w.pending, false)
			w.send(w.pending)
		}
	}
	w.send(p)
	if w.err != nil {
		return 0, w.err
	}
	return n, nil
}

// send sends a part of the body.
func (w *response) send(p []byte) {
	if w.isHead || len(p) == 0 {
		return
	}
	if w.isChunked {
		*w.buffer = append(strconv.AppendInt(*w.buffer, int64(len(p)), 16), "\r\n"...)
	}
	if len(*w.buffer)+len(p) <= cap(*w.buffer) {
		*w.buffer = append(*w.buffer, p...)
	} else {
		w.flush()
		w.transmit(p)
	}
	if w.isChunked {
		*w.buffer = append(*w.buffer, "\r\n"...)
	}
	if len(*w.buffer) > maxBuffered {
		w.flush()
	}
}

// flush writes what is buffered.
func (w *response) flush() {
	if len(*w.buffer) > 0 {
		w.transmit(*w.buffer)
		*w.buffer = (*w.buffer)[:0]
	}
}

// transmit writes to the connection. A failure means that the client has gone, and ends the request.
func (w *response) transmit(p []byte) {
	if w.err != nil {
		return
	}
	w.conn.limitWrite(w.until)
	if _, w.err = w.conn.Write(p); w.err != nil {
		w.of.ctx.end()
	}
}

// limitWrite sets the deadline for writing, unless the current one is nearly the same.
func (c *conn) limitWrite(until time.Time) {
	if until.IsZero() && c.writeUntil.IsZero() {
		return
	}
	if !until.IsZero() && !c.writeUntil.IsZero() && until.Sub(c.writeUntil).Abs() <= c.writeSlack {
		return
	}
	c.writeUntil, c.writeSlack = until, max(time.Until(until), 0)/16
	c.Conn.SetWriteDeadline(until) // the write fails if this does
}

// FlushError supports http.ResponseController.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.err != nil {
		return w.err
	}
	if !w.isBegun {
		w.begin(w.pending, false)
		w.send(w.pending)
	}
	w.flush()
	return w.err
}

// Flush supports handlers that know only http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// finish ends the response, and reports whether the connection can be used again.
func (w *response) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.isBegun {
		w.begin(w.pending, true)
		w.send(w.pending)
	}
	if w.isChunked {
		*w.buffer = append(*w.buffer, "0\r\n"...)
		w.appendTrailers()
		*w.buffer = append(*w.buffer, "\r\n"...)
	}
	w.flush()
	isShort := w.length >= 0 && w.written != w.length && !w.isHead && allowsBody(w.status)
	return w.err == nil && !w.closes && !isShort
}

// appendTrailers appends the trailers, as net/http finds them in the header.
func (w *response) appendTrailers() {
	trailers := http.Header{}
	for name, lines := range w.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			trailers[trailer] = lines
		}
	}
	for _, name := range w.trailers {
		trailers[name] = append(trailers[name], w.header[name]...)
	}
	if len(trailers) == 0 {
		return
	}
	var text bytes.Buffer
	_ = trailers.Write(&text) // a buffer does not fail
	*w.buffer = append(*w.buffer, text.Bytes()...)
}

// A date is the value of the Date header in one second.
type date struct {
	second int64
	text   []byte
}

func (s *Server) appendDate(b []byte, now time.Time) []byte {
	d := s.date.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), now.UTC().AppendFormat(nil, http.TimeFormat)}
		s.date.Store(d)
	}
	return append(b, d.text...)
}

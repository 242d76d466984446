package http1

import (
	"net/http"
	"strconv"
	"strings"
)

// A Head is the head of a common response.
type Head struct {
	Status int
	Length int64  // of the body that follows
	Lines  []Line // of the header, as they were sent, without those about the connection
	isLast bool   // the server closes the connection

	connection string // the value of that header, in lower case; "": none
}

// A Line is a line of a header.
type Line struct{ Name, Value string } // the name is canonical

// parse fills in the head from a text that ends with an empty line. It returns false, and may have changed the head, if
// it is not the head of a common response:
//
//   - a final status of HTTP/1.1, with a reason of printable ASCII
//   - lines as those of a common request (see request.parse)
//   - a body whose length is known: one Content-Length of digits, or a status without a body
//   - no header about the connection or the protocol, except Connection: keep-alive or close, and Keep-Alive
//   - not a stream of events, which is flushed after each part
func (h *Head) parse(text string, isHead bool) bool {
	line, rest, _ := strings.Cut(text, "\r\n")
	if !h.parseStatus(line) {
		return false
	}
	h.Length, h.Lines, h.connection = unknownLength, h.Lines[:0], ""
	for {
		var ok bool
		if line, rest, ok = strings.Cut(rest, "\r\n"); !ok {
			return false
		}
		if line == "" {
			break
		}
		name, value, ok := parseField(line)
		if !ok || !h.add(name, value) {
			return false
		}
	}
	h.isLast = h.connection == "close"
	if !allowsBody(h.Status) {
		h.Length = 0
	}
	if h.Length == unknownLength {
		return false
	}
	if isHead {
		h.Length = 0
	}
	return rest == ""
}

const unknownLength = -1

// add adds a line. It returns false if a common response does not have it.
func (h *Head) add(name, value string) bool {
	switch name {
	case "Connection":
		isFirst := h.connection == ""
		h.connection = strings.ToLower(value)
		return isFirst && (h.connection == "close" || h.connection == "keep-alive")
	case "Keep-Alive":
		return true
	case "Content-Length":
		isFirst := h.Length == unknownLength
		n, ok := parseLength(value)
		if !isFirst || !ok {
			return false
		}
		h.Length = n
	case "Content-Type":
		if isEvents(value) {
			return false
		}
	case "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Pragma":
		return false
	}
	h.Lines = append(h.Lines, Line{name, value})
	return true
}

// parseStatus parses HTTP/1.1 200 OK.
func (h *Head) parseStatus(line string) bool {
	const protocol, digits = "HTTP/1.1 ", 3
	text, ok := strings.CutPrefix(line, protocol)
	if !ok || len(text) < digits || len(text) > digits && text[digits] != ' ' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return false
		}
	}
	h.Status, _ = strconv.Atoi(text[:digits]) // 0 if it fails, at most 99 if there is a sign
	return h.Status >= http.StatusOK
}

// parseLength parses a number of at most 18 digits, which fits.
func parseLength(text string) (n int64, ok bool) {
	const maxDigits = 18
	if text == "" || len(text) > maxDigits {
		return 0, false
	}
	for i := range len(text) {
		c := text[i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// isEvents reports whether a type may be that of a stream of events.
func isEvents(contentType string) bool {
	const events = "text/event-stream"
	return len(contentType) >= len(events) && strings.Contains(strings.ToLower(contentType), events)
}

package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// maxFields is how many header lines a common request has at most.
const maxFields = 100

var endOfHead = []byte("\r\n\r\n")

// headLength returns the length of the head at the beginning of b, with its empty line, or 0 if it is not complete.
func headLength(b []byte) int {
	if i := bytes.Index(b, endOfHead); i >= 0 {
		return i + len(endOfHead)
	}
	return 0
}

// A request is a request and the memory for its parts.
type request struct {
	http.Request
	url    url.URL
	ctx    requestContext
	memory fields
}

// fields are the memory for a header.
type fields struct {
	header http.Header
	lines  []string
}

// newRequest returns a request without a head. It reuses the memory of the last one's header, unless something may
// still use that. Everything else is new: a context that was kept stays one of a request that has ended.
func newRequest(c *conn) *request {
	r := &request{ctx: requestContext{parent: c.server.context, conn: c}, memory: c.memory}
	c.memory = fields{}
	r.Request = *r.WithContext(&r.ctx)
	r.RemoteAddr = c.remote
	return r
}

// parse fills in the request with a head, which ends with its empty line. It returns false, and may have changed the
// request, if the head is not one of a common request:
//
//   - GET, HEAD, OPTIONS or DELETE of a path, with HTTP/1.1 and single spaces
//   - lines end with CR LF; each is a name, a colon and a value of printable ASCII, and none is continued
//   - exactly one Host, of letters, digits and . - _ : [ ]
//   - no header about a body, the connection or the protocol, except Connection: keep-alive
func (r *request) parse(head string) bool {
	line, rest, ok := strings.Cut(head, "\r\n")
	if !ok || !r.parseRequestLine(line) {
		return false
	}
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Body = http.NoBody
	return r.parseFields(rest)
}

func (r *request) parseRequestLine(line string) bool {
	method, rest, _ := strings.Cut(line, " ")
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodDelete:
	default:
		return false
	}
	target, isHTTP11 := strings.CutSuffix(rest, " HTTP/1.1")
	if !isHTTP11 || target == "" || target[0] != '/' {
		return false
	}
	r.Method, r.RequestURI = method, target
	r.URL = &r.url
	return r.parseTarget(target)
}

// parseTarget sets the URL to the one that net/http makes of the target. A path of plain characters is its own escaped
// form.
func (r *request) parseTarget(target string) bool {
	plain, query := len(target), -1
	for i := range len(target) {
		switch c := target[i]; {
		case c <= ' ' || c >= 0x7f || c == '#':
			return false
		case c == '?' && query < 0:
			query = i
		case query < 0 && !isPlain(c):
			plain = min(plain, i)
		}
	}
	switch {
	case query == len(target)-1, plain < len(target):
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return false
		}
		r.url = *u
	case query < 0:
		r.url.Path = target
	default:
		r.url.Path, r.url.RawQuery = target[:query], target[query+1:]
	}
	return true
}

// isPlain reports whether a path contains c as it is: unreserved characters and slashes.
func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '/' || c == '-' || c == '.' || c == '_' || c == '~'
}

// parseFields parses the header lines, up to and with the empty line.
func (r *request) parseFields(rest string) bool {
	n := strings.Count(rest, "\r\n") - 1
	if n < 1 || n > maxFields {
		return false
	}
	lines := r.memory.begin(n)
	r.Header = r.memory.header
	for {
		line, after, ok := strings.Cut(rest, "\r\n")
		if !ok {
			return false
		}
		if line == "" {
			return after == "" && r.Host != ""
		}
		name, value, ok := parseField(line)
		if !ok {
			return false
		}
		switch name {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Expect", "Upgrade", "Http2-Settings", "Keep-Alive", "Proxy-Connection", "Pragma":
			return false
		case "Host":
			if r.Host != "" || !IsHost(value) {
				return false
			}
			r.Host = value
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return false
			}
			fallthrough
		default:
			if same := r.Header[name]; same != nil {
				r.Header[name] = append(same, value)
				break
			}
			lines[0] = value
			r.Header[name], lines = lines[:1:1], lines[1:]
		}
		rest = after
	}
}

// begin empties the header, and returns the memory for n lines.
func (f *fields) begin(n int) []string {
	if f.header == nil {
		f.header = make(http.Header, n)
	} else {
		clear(f.header)
	}
	if len(f.lines) < n {
		f.lines = make([]string, n)
	}
	return f.lines
}

// parseField splits a header line. It returns false if the line is not an ordinary one.
func parseField(line string) (name, value string, ok bool) {
	colon := strings.IndexByte(line, ':')
	if colon < 1 {
		return "", "", false
	}
	for i := range colon {
		if !isToken[line[i]] {
			return "", "", false
		}
	}
	for i := colon + 1; i < len(line); i++ {
		if c := line[i]; (c < ' ' || c >= 0x7f) && c != '\t' {
			return "", "", false
		}
	}
	name = textproto.CanonicalMIMEHeaderKey(line[:colon])
	return name, textproto.TrimString(line[colon+1:]), true
}

// IsHost reports whether a Host header is a name or an address, perhaps with a port, and not empty.
func IsHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isPlain(c) && c != ':' && c != '[' && c != ']' || c == '/' || c == '~' {
			return false
		}
	}
	return s != ""
}

// isToken are the characters of the names of headers, by RFC 9110.
var isToken = func() (t [256]bool) {
	for c := range t {
		t[c] = c != '/' && isPlain(byte(c)) || c < 0x80 && strings.IndexByte("!#$%&'*+^`|", byte(c)) >= 0
	}
	return t
}()

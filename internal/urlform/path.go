package urlform

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Path returns the form in which rules match a path and count by it. All spellings that servers treat as the same
// path have the same form, so no spelling evades a rule or gets its own counter:
//
//   - Everything from the first ? or # on is cut off.
//   - Percent-escapes are decoded, once. These stay escaped, with upper-case digits: %2F, %3F and
//     %23, which separate nothing; %25, which could begin another escape; %7B and %7D, because braces
//     are wildcards in patterns; control characters. A % that does not begin an escape becomes %25,
//     a brace %7B or %7D.
//   - Several slashes become one; `.` and `..` are resolved, never above the root.
//   - A leading slash is added. A trailing slash is kept: /a/ is not /a. See [Ignore].
//   - Case is kept. See [Ignore].
//
// A path that already has this form, as nearly all have, is returned unchanged. The result has this form.
func Path(path string) string {
	if isPath(path) {
		return path
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	out, _ := resolve(path, appendDecoded) // cannot fail
	return out
}

// ForwardedPath returns the form in which a path is forwarded. Servers treat it as the path that rules have matched,
// because Path returns the same for both.
//
//   - Escapes of letters, digits and - . _ ~ are decoded. All others stay, with upper-case digits:
//     %2F is not a slash, here and at the upstream.
//   - Characters that must be escaped and are not are escaped.
//   - Several slashes become one; `.` and `..` are resolved, never above the root.
//   - A leading slash is added. A trailing slash is kept.
//
// It fails for paths that servers read differently: control characters and backslashes, escaped or not, invalid
// escapes, invalid UTF-8, ? and #, and dot segments with parameters (`..;`). The result has this form. "*" is
// returned unchanged.
func ForwardedPath(path string) (string, error) {
	if path == "*" || isForwarded(path) {
		return path, nil
	}
	return resolve(path, appendEscaped)
}

// resolve returns a path without empty and dot segments. write appends a segment in its final form, in which dots are
// not escaped.
func resolve(path string, write func(out []byte, segment string) ([]byte, error)) (string, error) {
	out := make([]byte, 0, len(path)+16)
	for more := true; more; {
		var segment string
		var err error
		segment, path, more = strings.Cut(path, "/")
		begin := len(out)
		if out, err = write(append(out, '/'), segment); err != nil {
			return "", err
		}
		switch string(out[begin+1:]) {
		case "", ".":
			out = out[:begin]
		case "..":
			out = out[:max(strings.LastIndexByte(string(out[:begin]), '/'), 0)]
		default:
			continue
		}
		if !more { // a directory, as /a/, /a/. and /a/b/.. are
			out = append(out, '/')
		}
	}
	return string(out), nil
}

// isPath reports whether a path is in the form that Path returns. It is fast, and may return false for one that is.
func isPath(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case mustStayEscaped(c) && c != '/':
			return false
		case c == '/' && i+1 < len(path):
			next := path[i+1]
			if next == '/' || next == '.' && (i+2 == len(path) || path[i+2] == '/' || path[i+2] == '.') {
				return false
			}
		}
	}
	return true
}

func isForwarded(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '/':
			if i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
				return false
			}
		case !isUnreserved(c) && !isDelimiter(c):
			return false
		}
	}
	return true
}

// appendDecoded appends a segment with its escapes decoded, except those that must stay.
func appendDecoded(out []byte, segment string) ([]byte, error) {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' {
			if decoded, ok := unescape(segment[i:]); ok {
				c = decoded
				i += 2
			}
		}
		if mustStayEscaped(c) {
			out = appendEscape(out, c)
		} else {
			out = append(out, c)
		}
	}
	return out, nil
}

func mustStayEscaped(c byte) bool {
	switch c {
	case '%', '{', '}', '?', '#', '/', 0x7f:
		return true
	}
	return c < ' '
}

// appendEscaped appends a segment in the form to forward.
func appendEscaped(out []byte, segment string) ([]byte, error) {
	decoded := make([]byte, 0, len(segment)) // for checking its meaning
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		escaped := c == '%'
		if escaped {
			var ok bool
			if c, ok = unescape(segment[i:]); !ok {
				return nil, errors.New("invalid percent escape; write % as %25")
			}
			i += 2
		}
		switch {
		case c < ' ' || c == 0x7f:
			return nil, errors.New("it has a control character")
		case c == '\\':
			return nil, errors.New("it has a backslash, which some servers read as a slash")
		case !escaped && (c == '?' || c == '#'):
			return nil, errors.New("a " + string(c) + " ends a path; escape it")
		case isUnreserved(c), !escaped && isDelimiter(c):
			out = append(out, c)
		default:
			out = appendEscape(out, c)
		}
		decoded = append(decoded, c)
	}
	if !utf8.Valid(decoded) {
		return nil, errors.New("it is not UTF-8")
	}
	if text := string(decoded); strings.HasPrefix(text, ".;") || strings.HasPrefix(text, "..;") {
		return nil, errors.New("a dot segment has parameters, which some servers resolve")
	}
	return out, nil
}

// unescape decodes the escape at the start of a text.
func unescape(text string) (c byte, ok bool) {
	if len(text) < 3 {
		return 0, false
	}
	high, low := hexDigit(text[1]), hexDigit(text[2])
	return byte(high<<4 | low), high >= 0 && low >= 0
}

func appendEscape(out []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(out, '%', digits[c>>4], digits[c&15])
}

func hexDigit(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func isUnreserved(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// isDelimiter reports whether a character may appear in a segment as it is, although its escape means something else.
func isDelimiter(c byte) bool { return strings.IndexByte("!$&'()*+,;=:@", c) >= 0 }

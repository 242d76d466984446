package httplimit

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/penstock-io/penstock"
)

// NormalizePath returns the one form of a path, as it stands in a request's first line, that is
// safe to forward: whoever reads it takes it for the path that rules have matched.
//
//   - Escapes of letters, digits and - . _ ~ are decoded. All others stay, with upper-case digits:
//     %2F is no slash, here and at the upstream.
//   - What must be escaped and is not becomes so.
//   - Several slashes become one; `.` and `..` are resolved, never above the root.
//   - A slash at the beginning is added. One at the end is kept.
//
// Refused is what servers disagree about: control characters and backslashes, escaped or not,
// escapes that are none, what is no UTF-8, ? and #, and dot segments with parameters (`..;`). The
// result does not change if it is normalised again. "*" stays as it is.
func NormalizePath(path string) (string, error) {
	if path == "*" || isNormal(path) {
		return path, nil
	}
	out, err := normalize(path)
	if err != nil {
		return "", fmt.Errorf("%w path %.64q: %w", penstock.ErrInvalid, path, err)
	}
	return out, nil
}

// isNormal is quick: it may err on the side of no.
func isNormal(path string) bool {
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

func normalize(path string) (string, error) {
	out := make([]byte, 0, len(path)+16)
	decoded := make([]byte, 0, len(path)) // to see what it says in the end
	for path != "" {
		path = strings.TrimLeft(path, "/")
		segment, rest, more := strings.Cut(path, "/")
		if path = rest; more {
			path = "/" + rest
		}
		begin, beginDecoded := len(out), len(decoded)
		var err error
		if out, decoded, err = appendSegment(append(out, '/'), append(decoded, '/'), segment); err != nil {
			return "", err
		}
		switch segment := string(out[begin+1:]); {
		case segment != "." && segment != "..":
			if isDotWithParameters(string(decoded[beginDecoded+1:])) {
				return "", errors.New("a dot segment has parameters, which some servers resolve")
			}
			continue
		case segment == "..":
			begin = max(strings.LastIndexByte(string(out[:begin]), '/'), 0)
		}
		if out = out[:begin]; !more { // /a/. and /a/b/.. are directories
			out = append(out, '/')
		}
	}
	if !utf8.Valid(decoded) {
		return "", errors.New("it is not UTF-8")
	}
	if len(out) == 0 {
		return "/", nil
	}
	return string(out), nil
}

// appendSegment appends a segment in its normal form, and decoded.
func appendSegment(out, decoded []byte, segment string) (_, _ []byte, err error) {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		escaped := c == '%'
		if escaped {
			var ok bool
			if c, ok = unescape(segment[i:]); !ok {
				return nil, nil, errors.New("a % begins no escape; write %25")
			}
			i += 2
		}
		switch {
		case c < ' ' || c == 0x7f:
			return nil, nil, errors.New("it has a control character")
		case c == '\\':
			return nil, nil, errors.New("it has a backslash, which some servers take for a slash")
		case !escaped && (c == '?' || c == '#'):
			return nil, nil, fmt.Errorf("a %c ends a path; write %%%02X", c, c)
		case isUnreserved(c), !escaped && isDelimiter(c):
			out = append(out, c)
		default:
			const digits = "0123456789ABCDEF"
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
		decoded = append(decoded, c)
	}
	return out, decoded, nil
}

// isDotWithParameters looks at a decoded segment, in which a slash is no end.
func isDotWithParameters(segment string) bool {
	return strings.HasPrefix(segment, ".;") || strings.HasPrefix(segment, "..;")
}

func unescape(text string) (byte, bool) {
	if len(text) < 3 {
		return 0, false
	}
	high, low := hexDigit(text[1]), hexDigit(text[2])
	return byte(high<<4 | low), high >= 0 && low >= 0
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

func isUnreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// isDelimiter reports what may stand in a segment as it is, though an escape of it is something else.
func isDelimiter(c byte) bool { return strings.IndexByte("!$&'()*+,;=:@", c) >= 0 }

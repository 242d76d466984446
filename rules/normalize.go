package rules

import "strings"

// normalizePath brings the paths that a server takes for one and the same to one form, so that no
// spelling of a path leads around its rules, nor to a counter of its own where it is a key:
//
//   - What begins with ? or # is cut off.
//   - Percent-escapes are decoded, once. Those that stay, with upper-case digits: %2F, %3F and
//     %23, which end nothing; %25, as it could begin another escape; %7B and %7D, as braces mean
//     wildcards in patterns; control characters. A % that begins no escape becomes %25, a brace
//     %7B or %7D.
//   - Several slashes become one; `.` and `..` are resolved, never above the root.
//   - A slash at the beginning is added. One at the end is kept: /a/ is not /a.
//   - Case is kept.
//
// A path that is in this form already, as nearly all are, is returned as it is. The result does
// not change if it is normalised again.
func normalizePath(path string) string {
	if isNormal(path) {
		return path
	}
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		path = path[:end]
	}
	out := make([]byte, 0, len(path)+16)
	for len(path) > 0 {
		path = strings.TrimLeft(path, "/")
		end := strings.IndexByte(path, '/')
		last := end < 0
		if last {
			end = len(path)
		}
		begin := len(out)
		out = appendDecoded(append(out, '/'), path[:end])
		path = path[end:]
		switch segment := string(out[begin+1:]); {
		case segment != "." && segment != "..":
			continue
		case segment == "..":
			begin = max(strings.LastIndexByte(string(out[:begin]), '/'), 0)
		}
		out = out[:begin]
		if last { // /a/. and /a/b/.. are directories
			out = append(out, '/')
		}
	}
	if len(out) == 0 {
		return "/"
	}
	return string(out)
}

// isNormal is quick: it may err on the side of no.
func isNormal(path string) bool {
	if len(path) == 0 || path[0] != '/' {
		return false
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '%', c == '?', c == '#', c == '{', c == '}', c < ' ', c == 0x7f:
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

// appendDecoded appends a segment with its escapes decoded, except those that must stay.
func appendDecoded(out []byte, segment string) []byte {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		if c == '%' && i+2 < len(segment) {
			if high, low := hexDigit(segment[i+1]), hexDigit(segment[i+2]); high >= 0 && low >= 0 {
				c = byte(high<<4 | low)
				i += 2
			}
		}
		switch {
		case c == '%', c == '{', c == '}', c == '?', c == '#', c == '/', c < ' ', c == 0x7f:
			const digits = "0123456789ABCDEF"
			out = append(out, '%', digits[c>>4], digits[c&15])
		default:
			out = append(out, c)
		}
	}
	return out
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

// Package onevalue reads the parts of a request that identify clients. A part that is sent twice is an error: of two
// values, one program reads the first, another the last, a third both. A client could be counted by one value and
// served by the other.
package onevalue

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Trim returns a value without the spaces and tabs around it, which are no part of a value (RFC 9110, 5.5). net/http
// leaves them: at the end after an empty continuation line, and on both sides over HTTP/2. Servers drop them, so values
// that differ only in them must be one value.
func Trim(value string) string {
	if value == "" || value[0] > ' ' && value[len(value)-1] > ' ' {
		return value
	}
	return textproto.TrimString(value)
}

// Header returns the value of a header, whose name must be in canonical form, without the spaces around it.
func Header(h http.Header, name string) (value string, ok bool, err error) {
	switch lines := h[name]; len(lines) {
	case 0:
		return "", false, nil
	case 1:
		return Trim(lines[0]), true, nil
	}
	return "", false, fmt.Errorf("the header %s is sent more than once", name)
}

// CheckAliases fails if there is a header that many servers confuse with one of the named headers, in canonical form:
// X_User_Id and X-User.Id become the variable HTTP_X_USER_ID, like X-User-Id.
func CheckAliases(h http.Header, names ...string) error {
	for other := range h {
		for _, name := range names {
			if len(other) == len(name) && other != name && isSameVariable(other, name) {
				return fmt.Errorf("a header was sent that servers read as %s", name)
			}
		}
	}
	return nil
}

// isSameVariable reports whether two names of the same length differ only in case and in characters that are neither
// letters nor digits.
func isSameVariable(a, b string) bool {
	for i := range len(a) {
		if variableByte(a[i]) != variableByte(b[i]) {
			return false
		}
	}
	return true
}

func variableByte(c byte) byte {
	switch {
	case c >= 'A' && c <= 'Z':
		return c | 0x20
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return c
	}
	return '_'
}

// Cookie returns the value of a cookie, in one form for all spellings that servers read as one value: without spaces
// and quotes around it, which Express and werkzeug remove, and with escapes decoded, as Express, Rack and PHP do. A
// space within is written +, because Rack reads + as a space.
//
// It is an error if servers that ignore case, or that also accept commas and spaces as separators, or that turn names
// into variables would find another cookie.
func Cookie(req *http.Request, name string) (value string, ok bool, err error) {
	found, alike := 0, 0
	for _, line := range req.Header["Cookie"] {
		f, a := countCookies(line, name)
		found, alike = found+f, alike+a
	}
	switch {
	case found == 0:
		return "", false, nil
	case alike > 1:
		return "", false, fmt.Errorf("the cookie %s is sent more than once", name)
	}
	cookie, err := req.Cookie(name)
	if err != nil { // a less strict server may have read it
		return "", false, fmt.Errorf("the cookie %s has an invalid value", name)
	}
	return cookieForm(cookie.Value), true, nil
}

// cookieForm returns the one form of a value that has lost its quotes. An escape that is not valid stays, as in PHP.
func cookieForm(value string) string {
	value = Trim(value)
	if strings.IndexByte(value, '%') >= 0 {
		out := make([]byte, 0, len(value))
		for i := 0; i < len(value); i++ {
			c := value[i]
			if c == '%' && i+2 < len(value) {
				if decoded, err := hex.DecodeString(value[i+1 : i+3]); err == nil {
					c = decoded[0]
					i += 2
				}
			}
			out = append(out, c)
		}
		value = string(out)
	}
	return strings.ReplaceAll(value, " ", "+")
}

// countCookies returns how many cookies in a Cookie header have a name, and how many some servers may confuse with
// it.
func countCookies(line, name string) (found, alike int) {
	const space = " \t\r\n"
	for i := 0; i+len(name) <= len(line); i++ {
		if !isSameVariable(line[i:i+len(name)], name) {
			continue
		}
		before, after := strings.TrimRight(line[:i], space), strings.TrimLeft(line[i+len(name):], space)
		begins := before == "" || strings.HasSuffix(before, ";")
		mayBegin := begins || strings.HasSuffix(before, ",") || len(before) < i
		switch {
		case begins && line[i:i+len(name)] == name && (after == "" || after[0] == ';' || after[0] == '='):
			found++
			alike++
		case mayBegin && strings.HasPrefix(after, "="):
			alike++
		}
	}
	return found, alike
}

// Parameter returns the value of a query parameter. A query that a server could read differently is an error:
// url.ParseQuery drops parameters with a semicolon or an invalid escape.
func Parameter(query, name string) (value string, ok bool, err error) {
	alike := 0
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		if strings.Contains(part, ";") {
			return "", false, errors.New("the query has a semicolon; write %3B, or & between parameters")
		}
		rawKey, rawValue, _ := strings.Cut(part, "=")
		key, badKey := url.QueryUnescape(rawKey)
		text, badValue := url.QueryUnescape(rawValue)
		if badKey != nil || badValue != nil {
			return "", false, errors.New("the query has a % that begins no escape; write %25")
		}
		if part == "" || !isSameParameter(key, name) {
			continue
		}
		alike++
		if key == name {
			value, ok = text, true
		}
	}
	if ok && alike > 1 {
		return "", false, fmt.Errorf("the query parameter %s is sent more than once", name)
	}
	return value, ok, nil
}

// isSameParameter reports whether some servers confuse a parameter with the one of a name: they ignore case, treat
// a[] and a[b] as parts of a, or turn names into variables.
func isSameParameter(key, name string) bool {
	if key == name {
		return true
	}
	key, _, _ = strings.Cut(strings.TrimLeft(key, " "), "\x00") // PHP drops the spaces, and ends a name at NUL
	if !strings.Contains(name, "[") {
		key, _, _ = strings.Cut(key, "[")
	}
	return len(key) == len(name) && isSameVariable(key, name)
}

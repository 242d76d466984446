// Package urlform defines the canonical form in which the parts of a request's URL are compared and forwarded.
package urlform

import (
	"fmt"
	"net/netip"
	"strings"
)

// A HostError says that a Host header, or HTTP/2's :authority, is not a host and an optional port.
type HostError struct{ Header string }

func (e *HostError) Error() string { return fmt.Sprintf("invalid Host header %.100q", e.Header) }

const (
	maxName  = 253 // bytes, as in DNS
	maxLabel = 63
)

// Host returns the host of a Host header or :authority in normal form: lower case, without port and without a
// trailing dot; an IPv6 address as in RFC 5952, without brackets. The error is a *HostError.
//
// It is stricter than RFC 3986, which allows escapes and punctuation in names: servers disagree on their meaning. A
// name consists of labels of up to 63 letters, digits, hyphens and underscores; internationalised names are in
// Punycode. A name whose last label is a number must be an IPv4 address in its usual form, as in browsers. User
// information is refused, and so are ports outside 0 to 65535.
func Host(header string) (string, error) {
	name, port, bracketed := split(header)
	if !isPort(port) {
		return "", &HostError{header}
	}
	if bracketed {
		address, err := netip.ParseAddr(name)
		if err != nil || !address.Is6() || address.Zone() != "" {
			return "", &HostError{header}
		}
		return address.String(), nil
	}
	name = strings.TrimSuffix(name, ".")
	if !isName(name) {
		return "", &HostError{header}
	}
	return strings.ToLower(name), nil
}

// split cuts off the port, with its colon, and the brackets.
func split(header string) (name, port string, bracketed bool) {
	if rest, ok := strings.CutPrefix(header, "["); ok {
		name, port, ok = strings.Cut(rest, "]")
		if !ok {
			return "", "", false
		}
		return name, port, true
	}
	if i := strings.IndexByte(header, ':'); i >= 0 {
		return header[:i], header[i:], false
	}
	return header, "", false
}

// isPort accepts "", a colon alone, which RFC 3986 allows, and a colon with a port.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	if text[0] != ':' || len(text) > len(":65535") {
		return false
	}
	n := 0
	for _, c := range []byte(text[1:]) {
		if c < '0' || c > '9' {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n <= 65535
}

func isName(name string) bool {
	if len(name) > maxName {
		return false
	}
	label := 0 // where it begins
	for i := 0; i <= len(name); i++ {
		switch {
		case i == len(name) || name[i] == '.':
			if i == label || i-label > maxLabel {
				return false
			}
			if i == len(name) && isNumber(name[label:]) {
				address, err := netip.ParseAddr(name)
				return err == nil && address.Is4()
			}
			label = i + 1
		case !isLetter(name[i]) && !isDigit(name[i]) && name[i] != '-' && name[i] != '_':
			return false
		}
	}
	return true
}

// isNumber reports whether resolvers take a label for a part of an IPv4 address: a decimal, octal or hexadecimal
// number.
func isNumber(label string) bool {
	if len(label) > 1 && label[0] == '0' && label[1]|0x20 == 'x' {
		return !strings.ContainsFunc(label[2:], func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) })
	}
	for i := range len(label) {
		if !isDigit(label[i]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

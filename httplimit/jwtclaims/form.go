package jwtclaims

import (
	"encoding/base64"
	"strings"
)

// isToken reports whether a text is a token as a whole, signed or encrypted, in the one form that all servers accept:
// parts in base64url without padding, with dots between them.
func isToken(text string) bool {
	parts := strings.Split(text, ".")
	if len(parts) != 3 && len(parts) != 5 {
		return false
	}
	for _, part := range parts {
		if run(part) != len(part) {
			return false
		}
	}
	return parts[0] != ""
}

// holdsToken reports whether a text contains the header and the payload of a token, whatever is around them. A server
// might find the token: some split a header at any space, take what follows any scheme, or ignore characters that are
// not base64 in the signature. The signature covers the text of header and payload, so these cannot be spelled in
// another way.
func holdsToken(text string) bool {
	for text != "" {
		header := text[:run(text)]
		if text = text[len(header):]; text == "" {
			return false
		}
		isDot := text[0] == '.'
		text = text[1:]
		if payload := run(text); isDot && payload > 0 && strings.HasPrefix(text[payload:], ".") && endsInObject(header) {
			return true
		}
	}
	return false
}

// run returns how many characters at the start of a text are base64url.
func run(text string) int {
	for i := range len(text) {
		c := text[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return i
		}
	}
	return len(text)
}

// endsInObject reports whether the end of a text in base64url may be the header of a token: a JSON object with a name
// in it.
func endsInObject(text string) bool {
	const least = len(`{"alg":""}`) * 4 / 3
	for ; len(text) >= least; text = text[1:] {
		if text[0] != 'e' { // as a brace does in base64
			continue
		}
		begin, err := base64.RawURLEncoding.DecodeString(text[:4])
		if err == nil && begin[0] == '{' && strings.IndexByte("\" \t\r\n", begin[1]) >= 0 {
			return true
		}
	}
	return false
}

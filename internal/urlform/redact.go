package urlform

import (
	"net/url"
	"strings"
)

// Redact returns a URL, or host:port, that is safe to show: without user, password, query and fragment, any of which
// may be a secret. It also accepts text that is not a valid URL, and then hides more: everything before the last @,
// and everything except the scheme if it finds no host.
func Redact(text string) string {
	scheme, user, host, path := parts(text)
	if _, err := Host(host); err != nil {
		return scheme + "…"
	}
	if user != "" {
		user = "…@"
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i+1] + "…"
	}
	return scheme + user + host + path
}

// HasPassword reports whether a URL, or a text that may be meant as one, has a password before its host.
func HasPassword(text string) bool {
	_, user, _, _ := parts(text)
	return strings.Contains(user, ":")
}

// WellFormed reports whether a URL can be read in one way only: parsers agree on where its password ends, and its
// query is name=value pairs.
func WellFormed(text string) bool {
	_, user, host, _ := parts(text)
	u, errURL := url.Parse(text)
	_, errHost := Host(host)
	if errURL != nil || errHost != nil || strings.IndexAny(user, "@/?#") != len(user)-1 {
		return false
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if pair != "" && !strings.Contains(pair, "=") {
			return false
		}
	}
	return true
}

// parts splits a text at its last @: the end of a password cannot be told from the text that follows.
func parts(text string) (scheme, user, host, path string) {
	scheme, rest, ok := strings.Cut(text, "://")
	if ok && isScheme(scheme) {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i+1], rest[i+1:]
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme, user, rest[:end], rest[end:]
}

// maxScheme is the length of the longest scheme in use here, postgresql.
const maxScheme = 10

func isScheme(text string) bool {
	for i := range len(text) {
		if !isLetter(text[i]) && !isDigit(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= maxScheme
}

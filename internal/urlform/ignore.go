package urlform

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ignore is a set of differences between paths that do not count. Servers disagree on them: what is
// one path to Express or a servlet container is several to nginx.
type Ignore uint8

const (
	// Case: /Login is /login. Letters of all alphabets are folded to lower case.
	Case Ignore = 1 << iota
	// TrailingSlash: /login/ is /login.
	TrailingSlash
	// MatrixParameters: /login;x=1 is /login, and /a/..;x/login is /login.
	MatrixParameters
)

// Path returns a path, which must be in the form that [Path] returns, without the differences that are
// ignored. A path that has none of them is returned as it is.
func (i Ignore) Path(path string) string {
	if i&MatrixParameters != 0 && strings.IndexByte(path, ';') >= 0 {
		path, _ = resolve(path, appendWithoutParameters) // which cannot fail
	}
	if i&Case != 0 {
		path = i.Text(path)
	}
	if i&TrailingSlash != 0 && len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// Text returns a part of a path, in which only case can be ignored.
func (i Ignore) Text(text string) string {
	if i&Case == 0 || isFolded(text) {
		return text
	}
	return strings.Map(fold, text)
}

func appendWithoutParameters(out []byte, segment string) ([]byte, error) {
	segment, _, _ = strings.Cut(segment, ";")
	return append(out, segment...), nil
}

// isFolded is quick, and may return false for a text that is folded.
func isFolded(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return true
}

// fold returns the same letter for all forms of one, whatever a server compares by: ſ and S are s, K
// (the Kelvin sign) is k, İ is i.
func fold(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

package urlform

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ignore is a set of differences between paths to ignore. Servers disagree on them: what is one path to Express or a
// servlet container is several to nginx.
type Ignore uint8

const (
	// Case ignores case: /Login is /login. Letters of all alphabets are folded to lower case.
	Case Ignore = 1 << iota
	// TrailingSlash ignores a slash at the end: /login/ is /login.
	TrailingSlash
	// MatrixParameters ignores parameters: /login;x=1 is /login, and /a/..;x/login is /login.
	MatrixParameters

	// Loose ignores all differences that common servers ignore.
	Loose = Case | TrailingSlash | MatrixParameters
)

// In returns the differences that would be ignored in a path, which must be in the form that [Path] returns. It may
// also return Case for a path without capitals. Nearly all paths have none.
func In(path string) (all Ignore) {
	for i := range len(path) {
		switch c := path[i]; {
		case c >= utf8.RuneSelf || c >= 'A' && c <= 'Z':
			all |= Case
		case c == ';':
			all |= MatrixParameters
		}
	}
	if len(path) > 1 && path[len(path)-1] == '/' {
		all |= TrailingSlash
	}
	return all
}

// Path returns a path without the ignored differences. The path must be in the form that [Path] returns. A path
// without such differences is returned unchanged.
func (i Ignore) Path(path string) string {
	if i&MatrixParameters != 0 && strings.IndexByte(path, ';') >= 0 {
		path, _ = resolve(path, appendWithoutParameters) // cannot fail
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

// isFolded is fast, and may return false for a folded text.
func isFolded(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c >= 'A' && c <= 'Z' {
			return false
		}
	}
	return true
}

// fold returns the same letter for all forms of a letter, however a server compares them: ſ and S become s, K (the
// Kelvin sign) becomes k, İ becomes i.
func fold(r rune) rune {
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

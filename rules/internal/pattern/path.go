package pattern

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock/internal/urlform"
)

// A Path is the path pattern of a match. It is compared with the normalised path of a request:
//
//	/health            this path
//	/users/{id}        `{name}` matches one segment, which is not empty
//	/search/{rest...}  `{name...}` matches all that follow, also none: it matches /search/, and
//	                   /search only if a trailing slash is ignored
//
// A rule's key and expressions use the values of its wildcards by name; the names in an override's path are only
// documentation. The text is itself normalised. A normalised path has no braces, so a segment with a brace is a
// wildcard. A match without a path has a Path without text.
type Path struct {
	Text   string
	Ignore urlform.Ignore // from the rule's path_matching: the text, and the paths compared with it, lack these differences
}

// Bounds of a path pattern. A request's path may have any length.
const (
	maxPathLength   = 2048
	maxPathSegments = 64
)

// ParsePath reads the path of a match, for a rule that ignores some differences between paths.
func ParsePath(text string, ignore urlform.Ignore) (Path, error) {
	none := Path{Ignore: ignore}
	switch {
	case !strings.HasPrefix(text, "/"):
		return none, fmt.Errorf("the path %.64q must begin with a slash, as in /search/{rest...}", text)
	case len(text) > maxPathLength:
		return none, fmt.Errorf("the path %.32q… has %d bytes; at most %d", text, len(text), maxPathLength)
	case strings.Count(text, "/") > maxPathSegments:
		return none, fmt.Errorf("the path %.32q… has %d segments; at most %d", text, strings.Count(text, "/"), maxPathSegments)
	case strings.ContainsAny(text, "?#"):
		return none, fmt.Errorf("the path %.64q must end before ? and #: a query is no part of it", text)
	}
	var b strings.Builder
	names := map[string]bool{}
	segments := strings.Split(text[1:], "/")
	for i, segment := range segments {
		b.WriteByte('/')
		if strings.ContainsAny(segment, "{}*") {
			if err := checkWildcard(segment, i == len(segments)-1, names); err != nil {
				return none, fmt.Errorf("the path %.64q: %w", text, err)
			}
			b.WriteString(segment)
			continue
		}
		if err := ForeignWildcard(segment); err != nil {
			return none, fmt.Errorf("the path %.64q: %w", text, err)
		}
		literal := (ignore &^ urlform.TrailingSlash).Path(urlform.Path("/" + segment))[1:]
		if literal == "" && (segment != "" || i < len(segments)-1) {
			return none, fmt.Errorf("the path %.64q has a segment %q, which a normalised path never has", text, segment)
		}
		b.WriteString(literal)
	}
	return Path{WithoutSlash(b.String(), ignore), ignore}, nil
}

// WithoutSlash removes the trailing slash of a path or pattern, if ignore says so.
func WithoutSlash(text string, ignore urlform.Ignore) string {
	if ignore&urlform.TrailingSlash != 0 && len(text) > 1 {
		return strings.TrimSuffix(text, "/")
	}
	return text
}

// checkWildcard checks a segment that has a brace or a star.
func checkWildcard(segment string, last bool, names map[string]bool) error {
	name, ok := strings.CutPrefix(segment, "{")
	name, closed := strings.CutSuffix(name, "}")
	if !ok || !closed || strings.ContainsAny(name, "{}*") {
		return fmt.Errorf("the segment %.64q must be literal as a whole, or {name} for one segment, or {name...} for all that follow", segment)
	}
	name, rest := strings.CutSuffix(name, "...")
	if !IsName(name) {
		return fmt.Errorf("the wildcard %.64q must be named by letters, digits, - and _, as {id}", segment)
	}
	if rest && !last {
		return fmt.Errorf("the wildcard %.64q stands for all that follow and must be the last segment", segment)
	}
	if names[name] {
		return fmt.Errorf("the name %.64q occurs twice", name)
	}
	names[name] = true
	return nil
}

// ForeignWildcard rejects a segment that is a wildcard in other tools, such as :id or <id>. It would be literal
// here, so the rule would silently match nothing.
func ForeignWildcard(segment string) error {
	name, ok := strings.CutPrefix(segment, ":")
	escaped := "%3A" + name
	if inner, isAngled := strings.CutPrefix(segment, "<"); isAngled && strings.HasSuffix(inner, ">") {
		name, ok = strings.TrimSuffix(inner, ">"), true
		name = name[strings.LastIndexByte(name, ':')+1:] // <int:id>
		escaped = "%3C" + strings.TrimSuffix(inner, ">") + "%3E"
	}
	if !ok || !IsName(name) {
		return nil
	}
	return fmt.Errorf("the segment %.64q is not a wildcard, write {%.64s}; for a literal segment write %.80s", segment, name, escaped)
}

// IsName reports whether a text can name a wildcard or an attribute.
func IsName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isLetter(c) && !isDigit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// NextSegment splits a path or pattern that begins with a slash after its first segment.
func NextSegment(path string) (segment, rest string) {
	if end := strings.IndexByte(path[1:], '/'); end >= 0 {
		return path[1 : end+1], path[end+1:]
	}
	return path[1:], ""
}

// IsRest reports whether a segment is {name...}. Literal segments have no braces.
func IsRest(segment string) bool { return strings.HasSuffix(segment, "...}") }

// IsWildcard reports whether a segment is {name} or {name...}.
func IsWildcard(segment string) bool { return strings.HasPrefix(segment, "{") }

// Fits reports whether a normalised path matches the pattern.
func (p Path) Fits(path string) bool {
	pattern := p.Text
	for pattern != "" {
		var want, have string
		want, pattern = NextSegment(pattern)
		if path == "" {
			return p.Ignore&urlform.TrailingSlash != 0 && IsRest(want)
		}
		have, path = NextSegment(path)
		switch {
		case !IsWildcard(want):
			if want != have {
				return false
			}
		case IsRest(want):
			return true
		case have == "":
			return false
		}
	}
	return path == ""
}

// Shape returns the pattern without names. Patterns of the same shape match the same paths.
func (p Path) Shape() string {
	segments := strings.Split(p.Text, "/")
	for i, segment := range segments {
		switch {
		case IsRest(segment):
			segments[i] = "{...}"
		case IsWildcard(segment):
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/")
}

// Sample returns a matching path, with a text for each wildcard and one after each literal segment.
func (p Path) Sample(wildcard, after string) string {
	segments := strings.Split(p.Text, "/")
	for i, segment := range segments {
		switch {
		case IsWildcard(segment):
			segments[i] = wildcard
		case segment != "":
			segments[i] += after
		}
	}
	return strings.Join(segments, "/")
}

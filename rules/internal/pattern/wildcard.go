package pattern

import "strings"

// A Wildcard is the part of a path that a name in a pattern matches.
type Wildcard struct {
	Segment int  // counted from 0
	Rest    bool // with all following segments
}

// Wildcard finds the wildcard with a name.
func (p Path) Wildcard(name string) (w Wildcard, ok bool) {
	for pattern := p.Text; pattern != ""; w.Segment++ {
		var segment string
		segment, pattern = NextSegment(pattern)
		if !IsWildcard(segment) {
			continue
		}
		if w.Rest = IsRest(segment); WildcardName(segment) == name {
			return w, true
		}
	}
	return Wildcard{}, false
}

// Wildcards returns the names of all wildcards.
func (p Path) Wildcards() (names []string) {
	for segment := range strings.SplitSeq(p.Text, "/") {
		if IsWildcard(segment) {
			names = append(names, WildcardName(segment))
		}
	}
	return names
}

// WildcardName returns the name in {name} and {name...}.
func WildcardName(segment string) string {
	return strings.TrimSuffix(strings.Trim(segment, "{}"), "...")
}

// Of returns the text that the wildcard matches in a path that matches the pattern.
func (w Wildcard) Of(path string) string {
	for range w.Segment {
		_, path = NextSegment(path)
	}
	if w.Rest {
		return strings.TrimPrefix(path, "/") // empty if its slash is ignored
	}
	segment, _ := NextSegment(path)
	return segment
}

package rules

import "strings"

// A wildcard is the part of a path that a name in a pattern stands for.
type wildcard struct {
	segment int  // counted from 0
	rest    bool // with all that follow
}

// wildcard finds the one of a name.
func (p pathPattern) wildcard(name string) (w wildcard, ok bool) {
	for pattern := p.text; pattern != ""; w.segment++ {
		var segment string
		segment, pattern = nextSegment(pattern)
		if !isWildcard(segment) {
			continue
		}
		if w.rest = isRest(segment); wildcardName(segment) == name {
			return w, true
		}
	}
	return wildcard{}, false
}

// wildcards returns the names of all.
func (p pathPattern) wildcards() (names []string) {
	for pattern := p.text; pattern != ""; {
		var segment string
		segment, pattern = nextSegment(pattern)
		if isWildcard(segment) {
			names = append(names, wildcardName(segment))
		}
	}
	return names
}

// wildcardName returns the name in {name} and {name...}.
func wildcardName(segment string) string {
	return strings.TrimSuffix(strings.Trim(segment, "{}"), "...")
}

// of returns what the wildcard stands for in a path that fits the pattern.
func (w wildcard) of(path string) string {
	for range w.segment {
		_, path = nextSegment(path)
	}
	if w.rest {
		return strings.TrimPrefix(path, "/") // of nothing if its slash is ignored
	}
	segment, _ := nextSegment(path)
	return segment
}

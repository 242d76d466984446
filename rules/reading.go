package rules

import (
	"context"
	"time"
)

// A Reading is a text read with the syntax of rules documents into another struct. Files beside the rules, such
// as their tests, use the same syntax and report errors in the same way.
type Reading struct{ found *problemCollector }

// Read fills a struct, tagged like [Document], from YAML or JSON. Values other than strings, numbers, booleans,
// times, lists, maps and structs must be [encoding.TextUnmarshaler]s. Read continues after an error and leaves
// unreadable values unchanged.
func Read(name string, text []byte, into any) *Reading {
	return &Reading{readInto(context.Background(), name, string(text), into, complain("the text is empty"))}
}

// Fail adds an error that Read cannot find by itself. at is the path to it: field names and list indexes.
func (r *Reading) Fail(message, hint string, at ...any) {
	where := position{Line: 1, Column: 1}
	if r.found.source.root != nil {
		where = r.found.source.find(at).At
	}
	r.found.add(Mistake, at, where, &valueProblem{message: message, hint: hint})
}

// Sound reports whether there is no error at a path or below it.
func (r *Reading) Sound(at ...any) bool { return r.found.isValid(at) }

// Place returns the position of a path in the text, and that line.
func (r *Reading) Place(at ...any) (Position, string) {
	place, text, _ := r.found.source.show(r.found.source.find(at).At)
	return place, text
}

// Err returns every error as [Problems], or nil if there is none.
func (r *Reading) Err() error {
	if r.found.mistakes == 0 {
		return nil
	}
	return r.found.sorted(Mistake)
}

// ParseDuration reads a duration in the syntax of documents: 0s, 500ms, 1h30m, 2d.
func ParseDuration(text string) (time.Duration, error) {
	length, c := parseDuration(text, false)
	if c != nil {
		return 0, c
	}
	return length, nil
}

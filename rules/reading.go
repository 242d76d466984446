package rules

import (
	"context"
	"reflect"
	"time"
)

// A Reading is a text that was read as documents are, into something else: what stands beside
// rules, such as their tests, is written in the same way and has its mistakes shown in the same way.
type Reading struct{ found *found }

// Read fills a struct, whose tags are as those of [Document], from YAML or JSON. Values other than
// texts, numbers, truths, times, lists, maps and structs are [encoding.TextUnmarshaler]s. It goes
// on after a mistake: what could not be read is left as it was.
func Read(name string, text []byte, into any) *Reading {
	f := &found{ctx: context.Background()}
	if f.readTree(name, string(text)) {
		r := &reader{found: f}
		r.read(f.source.root, reflect.ValueOf(into).Elem())
	} else if f.mistakes == 0 {
		f.add(Mistake, nil, spot{Line: 1, Column: 1}, complain("the text is empty"))
	}
	return &Reading{f}
}

// Fail adds a mistake that reading by itself does not show. The path leads to it: names of fields
// and indexes of lists.
func (r *Reading) Fail(message, hint string, at ...any) {
	where := spot{Line: 1, Column: 1}
	if r.found.source.root != nil {
		where = r.found.source.find(at).At
	}
	r.found.add(Mistake, at, where, &complaint{message: message, hint: hint})
}

// Sound tells whether there is no mistake at a path or below it.
func (r *Reading) Sound(at ...any) bool { return r.found.sound(at) }

// Place returns where the text has what a path leads to, and that line.
func (r *Reading) Place(at ...any) (Place, string) {
	place, text, _ := r.found.source.show(r.found.source.find(at).At)
	return place, text
}

// Err returns every mistake, as [Problems]; nil if there is none.
func (r *Reading) Err() error {
	if r.found.mistakes == 0 {
		return nil
	}
	return r.found.sorted(Mistake)
}

// ParseDuration reads a length of time as documents have it: 0s, 500ms, 1h30m, 2d.
func ParseDuration(text string) (time.Duration, error) {
	length, c := parseDuration(text, false)
	if c != nil {
		return 0, c
	}
	return length, nil
}

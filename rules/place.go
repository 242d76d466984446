package rules

import (
	"fmt"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// A path leads to a part of a document by field names and list indexes.
type path []any

// with returns a longer path and leaves p unchanged.
func (p path) with(steps ...any) path { return append(p[:len(p):len(p)], steps...) }

// String formats the path, for example rules[3].limits[0].rate.
func (p path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// A source is the text of a document and its parse tree.
type source struct {
	name  string
	text  string
	root  *node
	lines *strictdoc.Lines // made when first needed
}

// find returns the part of the text at a path, or the nearest existing parent: a missing field is reported where
// it is missing.
func (s *source) find(at path) *node {
	n := s.root
	for _, step := range at {
		next := n.Step(step)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// index returns the lines of the text.
func (s *source) index() *strictdoc.Lines {
	if s.lines == nil {
		s.lines = strictdoc.NewLines(s.text)
	}
	return s.lines
}

// show returns a spot as a place, with its line or, for a long line, the part around the spot. from is the column
// at which that part begins.
func (s *source) show(where position) (_ Position, text string, from int) {
	where, text, first := s.index().Show(where)
	return Position{File: s.name, Line: int(where.Line), Column: int(where.Column)}, text, int(first)
}

// line returns the line with a number.
func (s *source) line(number int) string { return s.index().Line(int32(number)) }

// within returns the spot at a character offset in a scalar.
func (s *source) within(n *node, offset int) position {
	if n.Kind != strictdoc.Scalar || offset == 0 {
		return n.At
	}
	switch n.Style {
	case strictdoc.Quoted:
		offset++
	case strictdoc.Literal:
		before := []rune(n.Text)
		before = before[:min(offset, len(before))]
		line, column := 1, 0
		for _, r := range before {
			column++
			if r == '\n' {
				line, column = line+1, 0
			}
		}
		return s.withinLines(n, line, column+1)
	case strictdoc.Folded:
		return n.At // lines are joined
	}
	return position{Line: n.At.Line, Column: n.At.Column + int32(offset)}
}

// withinLines returns the spot of a line and column in a scalar's text.
func (s *source) withinLines(n *node, line, column int) position {
	switch {
	case n.Style == strictdoc.Literal:
		number := int(n.At.Line) + line
		text := s.line(number)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if first := s.line(int(n.At.Line) + 1); line > 1 { // the first line sets the indentation of all
			indent = len(first) - len(strings.TrimLeft(first, " "))
		}
		return position{Line: int32(number), Column: int32(indent + column)}
	case line == 1:
		return s.within(n, column-1)
	}
	return n.At
}

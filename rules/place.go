package rules

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A path leads to a part of a document: names of fields and indexes of lists.
type path []any

// with returns a longer path; the one it is called on stays as it is.
func (p path) with(steps ...any) path { return append(p[:len(p):len(p)], steps...) }

// String writes the path as in rules[3].limits[0].rate.
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

// A spot is a place within the one text that is being read.
type spot struct{ line, column int32 }

// A source is the text of a document and what it consists of.
type source struct {
	name  string
	text  string
	root  *node
	lines []int // where each begins; made when first needed
}

// find returns the part of the text that a path leads to, or the last one on the way there: what
// is missing is shown where it is missing.
func (s *source) find(at path) *node {
	n := s.root
	for _, step := range at {
		next := n.step(step)
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// show returns a spot as a place, with its line.
func (s *source) show(where spot) (Place, string) {
	line := s.line(int(where.line))
	column := min(int(where.column), utf8.RuneCountInString(line)+1)
	return Place{File: s.name, Line: int(where.line), Column: column}, line
}

// line returns a line of the text by its number.
func (s *source) line(number int) string {
	if s.lines == nil {
		s.lines = append(s.lines, 0)
		for i := range len(s.text) {
			if s.text[i] == '\n' {
				s.lines = append(s.lines, i+1)
			}
		}
	}
	if number < 1 || number > len(s.lines) {
		return ""
	}
	line, _, _ := strings.Cut(s.text[s.lines[number-1]:], "\n")
	return strings.TrimSuffix(line, "\r")
}

// within returns the spot so many characters into a scalar.
func (s *source) within(n *node, offset int) spot {
	if n.kind != scalarNode || offset == 0 {
		return n.at
	}
	switch n.style {
	case quoted:
		offset++
	case literal:
		before := []rune(n.text)
		before = before[:min(offset, len(before))]
		line, column := 1, 0
		for _, r := range before {
			column++
			if r == '\n' {
				line, column = line+1, 0
			}
		}
		return s.withinLines(n, line, column+1)
	case folded:
		return n.at // lines were joined
	}
	return spot{n.at.line, n.at.column + int32(offset)}
}

// withinLines returns the spot of a line and column of a scalar's text.
func (s *source) withinLines(n *node, line, column int) spot {
	switch {
	case n.style == literal:
		number := int(n.at.line) + line
		text := s.line(number)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if first := s.line(int(n.at.line) + 1); line > 1 { // the first line sets how far all are indented
			indent = len(first) - len(strings.TrimLeft(first, " "))
		}
		return spot{int32(number), int32(indent + column)}
	case line == 1:
		return s.within(n, column-1)
	}
	return n.at
}

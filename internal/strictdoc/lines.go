package strictdoc

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Lines finds positions in a text, however long its lines are. It keeps a few bytes per block of the text,
// computed on first use.
type Lines struct {
	text  string
	marks []lineMark
}

type lineMark struct {
	offset int
	at     Position
}

const blockSize = 4096

// NewLines returns the lines of a text.
func NewLines(text string) *Lines { return &Lines{text: text} }

// offset returns the offset of a position in the text. A position beyond the end of its line is at that end.
func (l *Lines) offset(at Position) int {
	if l.marks == nil {
		l.index()
	}
	i, found := slices.BinarySearchFunc(l.marks, at, func(m lineMark, at Position) int { return m.at.compare(at) })
	if !found {
		i = max(i-1, 0)
	}
	m := l.marks[i]
	for m.at.compare(at) < 0 && m.offset < len(l.text) {
		size := m.step(l.text)
		if m.at.Line > at.Line { // the line ends before the column
			return m.offset - size
		}
	}
	return m.offset
}

func (l *Lines) index() {
	m := lineMark{at: Position{1, 1}}
	l.marks = append(l.marks, m)
	for next := blockSize; m.offset < len(l.text); {
		if m.step(l.text); m.offset >= next {
			l.marks = append(l.marks, m)
			next += blockSize
		}
	}
}

// step moves over one character.
func (m *lineMark) step(text string) (size int) {
	c, size := utf8.DecodeRuneInString(text[m.offset:])
	m.offset += size
	if m.at.Column++; c == '\n' {
		m.at = Position{m.at.Line + 1, 1}
	}
	return size
}

func (s Position) compare(other Position) int {
	return cmp.Or(cmp.Compare(s.Line, other.Line), cmp.Compare(s.Column, other.Column))
}

// Line returns the line with a number, without its end, or "" if there is none.
func (l *Lines) Line(number int32) string {
	if number < 1 {
		return ""
	}
	start := Position{number, 1}
	offset := l.offset(start)
	if number > 1 && (offset == 0 || l.text[offset-1] != '\n') {
		return ""
	}
	line, _, _ := strings.Cut(l.text[offset:], "\n")
	return strings.TrimSuffix(line, "\r")
}

// A long line is shown in part: these many bytes before the position and from it on.
const (
	shownBefore = 120 // bytes
	shownAfter  = 240
)

// Show returns a position no further right than the end of its line, the line, and the column at which that
// begins. from is 1 unless the line is long and only the part around the position is returned.
func (l *Lines) Show(at Position) (_ Position, line string, from int32) {
	offset := l.offset(at)
	start := max(offset-shownBefore, 0)
	if end := strings.LastIndexByte(l.text[start:offset], '\n'); end >= 0 {
		start += end + 1
	}
	for start < offset && !utf8.RuneStart(l.text[start]) {
		start++
	}
	end := min(offset+shownAfter, len(l.text))
	if next := strings.IndexByte(l.text[offset:end], '\n'); next >= 0 {
		end = offset + next
	}
	for end > offset && end < len(l.text) && !utf8.RuneStart(l.text[end]) {
		end--
	}
	line = strings.TrimSuffix(l.text[start:end], "\r")
	before := int32(utf8.RuneCountInString(l.text[start:offset]))
	if start == 0 || l.text[start-1] == '\n' {
		at.Column = min(at.Column, int32(utf8.RuneCountInString(line))+1)
		return at, line, 1
	}
	return at, line, at.Column - before
}

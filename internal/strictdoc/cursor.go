package strictdoc

import (
	"strings"
	"unicode/utf8"
)

// A cursor is a position in a text.
type cursor struct {
	text         string
	pos          int
	line, column int32
	fresh        bool     // only space precedes it on its line
	tab          Position // position of a tab in the space before it; zero: none
}

func (c *cursor) position() Position { return Position{c.line, c.column} }

// advance moves over bytes of one line that are not all space, at most to the end.
func (c *cursor) advance(bytes int) {
	bytes = min(bytes, len(c.text)-c.pos)
	c.column += int32(utf8.RuneCountInString(c.text[c.pos : c.pos+bytes]))
	c.pos += bytes
	c.fresh, c.tab = false, Position{}
}

// peek returns the byte at the cursor, 0 at the end.
func (c *cursor) peek() byte {
	if c.pos < len(c.text) {
		return c.text[c.pos]
	}
	return 0
}

// space moves over spaces and tabs.
func (c *cursor) space() {
	for ; c.pos < len(c.text); c.pos++ {
		switch c.text[c.pos] {
		case '\t':
			if c.tab == (Position{}) {
				c.tab = c.position()
			}
		case ' ':
		default:
			return
		}
		c.column++
	}
}

// newline moves over the end of a line, and reports whether there is one.
func (c *cursor) newline() bool {
	switch {
	case strings.HasPrefix(c.text[c.pos:], "\n"):
		c.pos++
	case strings.HasPrefix(c.text[c.pos:], "\r\n"):
		c.pos += 2
	default:
		return false
	}
	c.line, c.column, c.fresh, c.tab = c.line+1, 1, true, Position{}
	return true
}

// skip moves to the next value or indicator, over space, comments and line ends.
func (c *cursor) skip() {
	for {
		c.space()
		if c.comment() {
			c.pos += len(c.restOfLine())
		}
		if !c.newline() {
			return
		}
	}
}

// comment reports whether a comment begins here.
func (c *cursor) comment() bool {
	return c.peek() == '#' && (c.pos == 0 || isBlank(c.text, c.pos-1))
}

// restOfLine returns the rest of the line, without its end.
func (c *cursor) restOfLine() string {
	line, _, _ := strings.Cut(c.text[c.pos:], "\n")
	return strings.TrimSuffix(line, "\r")
}

// isBlank reports whether a position has space or is at the end.
func isBlank(text string, at int) bool {
	return at >= len(text) || strings.IndexByte(" \t\r\n", text[at]) >= 0
}

func isFlowMark(b byte) bool { return strings.IndexByte(",[]{}", b) >= 0 }

// skipBreaks moves over space and line ends, and returns the number of line ends.
func (c *cursor) skipBreaks() (n int) {
	c.space()
	for c.newline() {
		n++
		c.space()
	}
	return n
}

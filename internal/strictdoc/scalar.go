package strictdoc

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// key reads the part of a scalar that can be a key: a quoted scalar, or the plain text on this line.
func (p *parser) key(n *Node, flow bool) {
	n.Kind = Scalar
	switch c := p.peek(); {
	case c == '"':
		n.Style, n.Text = Quoted, p.doubleQuoted()
	case c == '\'':
		n.Style, n.Text = Quoted, p.singleQuoted()
	case p.beginsPlain(flow):
		n.Text = p.plainLine(flow)
	case p.err == nil && p.pos < len(p.text):
		p.refuse(c)
	}
}

// resolve turns an empty or null plain scalar into a null.
func (p *parser) resolve(n *Node) {
	if n.Style != Plain {
		return
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		n.Kind, n.Text = Null, ""
	}
}

// beginsPlain reports whether a plain scalar can begin here.
func (p *parser) beginsPlain(flow bool) bool {
	switch c := p.peek(); c {
	case 0, ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`':
		return false
	case '-', '?', ':':
		return !isBlank(p.text, p.pos+1) && !(flow && isFlowMark(p.text[p.pos+1]))
	}
	return true
}

// plainLine reads the plain text on this line, without the space that follows.
func (p *parser) plainLine(flow bool) string {
	end := p.pos
	for i := p.pos; i < len(p.text); i++ {
		c := p.text[i]
		switch {
		case c == '\n':
		case c == ':' && (isBlank(p.text, i+1) || flow && isFlowMark(p.text[i+1])):
		case c == '#' && i > 0 && isBlank(p.text, i-1):
		case flow && isFlowMark(c):
		default:
			if c != ' ' && c != '\t' && c != '\r' {
				end = i + 1
			}
			continue
		}
		break
	}
	text := p.text[p.pos:end]
	p.advance(len(text))
	return text
}

// continued adds the further lines of a plain scalar: in a block, those beyond the parent's column.
func (p *parser) continued(n *Node, parent int32, flow bool) {
	var b strings.Builder
	for p.err == nil {
		before := p.cursor
		lines := p.skipBreaks()
		if lines == 0 || p.ended() || p.comment() || !flow && p.column <= parent || flow && !p.goesOn() {
			p.cursor = before
			break
		}
		at := p.position()
		line := p.plainLine(flow)
		if !flow && p.isColon() {
			p.syntax(at, "mapping value is not allowed in this context")
			return
		}
		if b.Len() == 0 {
			b.WriteString(n.Text)
		}
		fold(&b, lines)
		b.WriteString(line)
	}
	if b.Len() > 0 {
		n.Text = b.String()
	}
}

// goesOn reports whether a plain scalar in brackets can continue here.
func (p *parser) goesOn() bool {
	c := p.peek()
	return !isFlowMark(c) && !(c == ':' && (isBlank(p.text, p.pos+1) || isFlowMark(p.text[p.pos+1])))
}

// fold joins lines: a single line end becomes a space; of several, the first is dropped.
func fold(b *strings.Builder, lines int) {
	if lines == 1 {
		b.WriteByte(' ')
		return
	}
	b.WriteString(strings.Repeat("\n", lines-1))
}

func (p *parser) singleQuoted() string {
	return p.quoted('\'', "'\n", func(b *strings.Builder) bool {
		p.advance(1)
		if p.peek() != '\'' {
			return false
		}
		b.WriteByte('\'')
		p.advance(1)
		return true
	})
}

func (p *parser) doubleQuoted() string {
	return p.quoted('"', "\"\\\n", func(b *strings.Builder) bool {
		if p.peek() == '\\' {
			p.escape(b)
			return true
		}
		p.advance(1)
		return false
	})
}

// quoted reads up to the closing quote. At each of the stops it calls mark, which reads on and reports whether
// the scalar continues.
func (p *parser) quoted(quote byte, stops string, mark func(*strings.Builder) bool) string {
	open := p.position()
	p.advance(1)
	var b strings.Builder
	for p.err == nil {
		end := strings.IndexAny(p.text[p.pos:], stops)
		if end < 0 || p.marker("---") || p.marker("...") {
			p.syntax(open, "the quote %c is not closed", quote)
			break
		}
		stretch := p.text[p.pos : p.pos+end]
		p.advance(end)
		if p.peek() == '\n' {
			b.WriteString(strings.TrimRight(stretch, " \t\r"))
			fold(&b, p.skipBreaks())
			continue
		}
		if b.Len() == 0 && p.peek() == quote { // most need no copy
			if !mark(&b) {
				return stretch
			}
			rest := b.String()
			b.Reset()
			b.WriteString(stretch + rest)
			continue
		}
		if b.WriteString(stretch); !mark(&b) {
			return b.String()
		}
	}
	return ""
}

var escapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// escape reads what follows a backslash.
func (p *parser) escape(b *strings.Builder) {
	at := p.position()
	p.advance(1)
	c := p.peek()
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; digits > 0 {
		p.advance(1)
		b.WriteRune(p.code(at, digits))
		return
	}
	if p.newline() {
		b.WriteString(strings.Repeat("\n", p.skipBreaks()))
		return
	}
	text, ok := escapes[c]
	if !ok {
		p.syntax(at, "unknown escape in a text in double quotes")
		return
	}
	b.WriteString(text)
	p.advance(1)
}

// code reads a character by its number. A surrogate pair, as in JSON, is one character.
func (p *parser) code(at Position, digits int) rune {
	r := p.hex(at, digits)
	if digits == 4 && utf16.IsSurrogate(r) && strings.HasPrefix(p.text[p.pos:], `\u`) {
		p.advance(2)
		r = utf16.DecodeRune(r, p.hex(at, 4))
	}
	if !utf8.ValidRune(r) {
		p.syntax(at, "invalid escape")
	}
	return r
}

func (p *parser) hex(at Position, digits int) rune {
	text := p.text[p.pos:min(p.pos+digits, len(p.text))]
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) < digits {
		p.syntax(at, "the escape needs %d hexadecimal digits", digits)
		return 0
	}
	p.advance(digits)
	return rune(min(n, utf8.MaxRune+1))
}

// blockScalar reads the lines after | or >, which are indented beyond the parent's column.
func (p *parser) blockScalar(n *Node, parent int32) {
	n.Kind, n.Style = Scalar, Literal
	if p.peek() == '>' {
		n.Style = Folded
	}
	p.advance(1)
	least := max(int(parent), 1)
	indent, chomp := p.blockHeader(least)
	b := blockText{folded: n.Style == Folded}
	widest := 0
	for p.pos < len(p.text) {
		line := p.restOfLine()
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		isBlank := spaces == len(line) && (indent == 0 || spaces <= indent)
		if !isBlank && spaces < max(indent, least) {
			break
		}
		if indent == 0 && !isBlank {
			if indent = spaces; line[spaces] == '\t' || widest > indent {
				p.syntax(p.position(), "the first line is indented by a tab, or less than an empty line before it")
				return
			}
		}
		p.pos += len(line)
		p.newline()
		if isBlank {
			widest = max(widest, spaces)
			b.blank++
			continue
		}
		b.add(line[indent:])
	}
	n.Text = b.end(chomp)
}

// blockText joins the lines of a block scalar.
type blockText struct {
	text     strings.Builder
	folded   bool
	begun    bool
	indented bool // the line before begins with a space or a tab
	blank    int  // empty lines since the line before
}

// add appends a line that is not empty.
func (b *blockText) add(line string) {
	wasIndented := b.indented
	b.indented = line[0] == ' ' || line[0] == '\t'
	switch {
	case !b.begun:
		b.text.WriteString(strings.Repeat("\n", b.blank))
	case b.folded && !b.indented && !wasIndented:
		fold(&b.text, b.blank+1)
	default:
		b.text.WriteString(strings.Repeat("\n", b.blank+1))
	}
	b.text.WriteString(line)
	b.begun, b.blank = true, 0
}

// end returns the text, with the line breaks at its end that the chomping indicator (-, + or 0) keeps.
func (b *blockText) end(chomp byte) string {
	if b.begun && chomp != '-' {
		b.text.WriteByte('\n')
	}
	if chomp == '+' {
		b.text.WriteString(strings.Repeat("\n", b.blank))
	}
	return b.text.String()
}

// blockHeader reads what follows | or > on its line: the indentation, 0 if the first line sets it, and + or - for
// the line breaks at the end.
func (p *parser) blockHeader(least int) (indent int, chomp byte) {
	for range 2 {
		switch c := p.peek(); {
		case chomp == 0 && (c == '+' || c == '-'):
			chomp = c
		case indent == 0 && c >= '1' && c <= '9':
			indent = least + int(c-'1')
		default:
			continue
		}
		p.advance(1)
	}
	p.space()
	if p.comment() {
		p.pos += len(p.restOfLine())
	}
	if !p.newline() && p.pos < len(p.text) {
		p.syntax(p.position(), "the text of a block begins on the next line")
	}
	return indent, chomp
}

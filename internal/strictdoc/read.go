package strictdoc

import (
	"context"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of every text. They keep searching the fields of a mapping cheap.
const (
	MaxFields = 1000
	MaxItems  = 200_000 // of one list
)

// Options configure what a text may contain.
type Options struct {
	MaxBytes int
	MaxNodes int // an alias counts as all nodes it refers to
	MaxDepth int

	// Anchors allows anchors, aliases and tags. Tags have no effect. A merge key is a field named <<.
	Anchors bool
}

// Read returns the root of a text, or nil if the text is empty. Its error is an [*Error], or that of the context:
// reading stops soon after the context ends.
func Read(ctx context.Context, text string, o Options) (*Node, error) {
	if len(text) > o.MaxBytes {
		return nil, &Error{At: Position{1, 1}, Message: fmt.Sprintf("the text has %d bytes, at most %d", len(text), o.MaxBytes)}
	}
	if err := checkCharacters(text); err != nil {
		return nil, err
	}
	p := &parser{ctx: ctx, options: o, cursor: cursor{text: text, line: 1, column: 1, fresh: true}}
	root := p.document()
	if p.err != nil {
		return nil, p.err
	}
	return root, nil
}

// checkCharacters rejects bytes that are not UTF-8, and control characters, which YAML does not allow.
func checkCharacters(text string) error {
	at := Position{1, 1}
	for i, r := range text {
		switch {
		case r == '\n':
			at = Position{at.Line + 1, 0}
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			return &Error{At: at, Message: "the text is not UTF-8"}
		case r == '\r' && strings.HasPrefix(text[i:], "\r\n") || r == '\t':
		case unicode.IsControl(r):
			return &Error{At: at, Message: fmt.Sprintf("the control character %U is not allowed", r)}
		}
		at.Column++
	}
	return nil
}

// A parser reads one text. After an error it is at the end of the text, where every loop ends.
type parser struct {
	cursor
	ctx     context.Context
	options Options
	err     error

	count   int    // nodes so far, including those behind aliases
	stack   []Node // items of the open collections
	deepest int    // depth of any node since the last anchor
	anchors map[string]anchoredNode
}

// checkEvery is how many nodes are read between two checks of the context.
const checkEvery = 1024

// enter counts a node before it is made. It returns false if the node is not allowed.
func (p *parser) enter(depth int) bool {
	p.count++
	p.deepest = max(p.deepest, depth)
	switch {
	case p.err != nil:
	case depth > p.options.MaxDepth:
		p.fail(p.position(), "nested more than %d deep", p.options.MaxDepth)
	case p.count > p.options.MaxNodes:
		p.fail(p.position(), "the text has more than %d values", p.options.MaxNodes)
	case p.count%checkEvery == 0 && p.ctx.Err() != nil:
		p.stop(context.Cause(p.ctx))
	}
	return p.err == nil
}

// fail records the first error.
func (p *parser) fail(at Position, format string, args ...any) *Error {
	e := &Error{At: at, Message: fmt.Sprintf(format, args...)}
	p.stop(e)
	return e
}

// syntax records that a text is not YAML.
func (p *parser) syntax(at Position, format string, args ...any) {
	p.fail(at, "not YAML: "+format, args...)
}

func (p *parser) stop(err error) {
	if p.err == nil {
		p.err = err
	}
	p.pos = len(p.text)
}

// push adds an item to the collection that began with the stack at base. It reports whether more items are
// allowed.
func (p *parser) push(base int, item Node, most int, what string) bool {
	if len(p.stack)-base == most {
		at := item.At
		if item.KeyAt.Line > 0 {
			at = item.KeyAt
		}
		p.fail(at, "%s", fmt.Sprintf(what, most))
		return false
	}
	p.stack = append(p.stack, item)
	return p.err == nil
}

func (p *parser) pushItem(base int, item Node) bool {
	return p.push(base, item, MaxItems, "a list has more than %d items")
}

func (p *parser) pushField(base int, item Node) bool {
	if item.Key == "<<" && item.KeyStyle == Plain && !p.options.Anchors {
		p.fail(item.KeyAt, "merge keys are not supported").Hint = "write the fields out"
		return false
	}
	if item.Kind == Null {
		item.At = item.KeyAt // the only position there is
	}
	return p.push(base, item, MaxFields, "a mapping has more than %d fields")
}

// pop returns the items since base, in a new slice.
func (p *parser) pop(base int) []Node {
	if p.err != nil {
		return nil
	}
	items := make([]Node, len(p.stack)-base)
	copy(items, p.stack[base:])
	clear(p.stack[base:])
	p.stack = p.stack[:base]
	return items
}

// document reads the one document of the text.
func (p *parser) document() *Node {
	p.skip()
	if p.pos < len(p.text) && p.text[p.pos] == '%' {
		p.fail(p.position(), "directives are not supported")
		return nil
	}
	inline := p.marker("---")
	if line := p.line; inline {
		p.advance(len("---"))
		p.skip()
		inline = p.line == line
	}
	var root *Node
	if !p.ended() && p.indented() {
		root = &Node{}
		p.block(root, 0, 0, inline)
		p.skip()
	}
	if p.marker("...") && p.options.Anchors {
		p.advance(len("..."))
		p.skip()
	}
	switch {
	case p.marker("---"):
		p.fail(p.position(), "a second document begins here").Hint = "write everything in one"
	case p.marker("..."):
		p.fail(p.position(), "document end markers are not supported").Hint = "leave ... out"
	case p.pos < len(p.text):
		p.misplaced()
	}
	return root
}

// misplaced fails at a value where none is allowed.
func (p *parser) misplaced() { p.syntax(p.position(), "value is not allowed in this context") }

// ended reports whether the document has ended.
func (p *parser) ended() bool {
	return p.pos >= len(p.text) || p.marker("---") || p.marker("...")
}

// marker reports whether a line begins with a document marker.
func (p *parser) marker(mark string) bool {
	return p.column == 1 && strings.HasPrefix(p.text[p.pos:], mark) && isBlank(p.text, p.pos+len(mark))
}

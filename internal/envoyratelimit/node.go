package envoyratelimit

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock-io/penstock/rules"
)

// A node is a part of a file and where it stands.
type node struct {
	kind  nodeKind
	at    spot
	text  string // of a scalar
	plain bool   // a scalar without quotes, which may be no string
	items []node // of a list or a mapping
	mixed bool   // some of them were merged

	key      string // in a mapping
	keyAt    spot
	otherKey bool // the key is no string
	merged   bool // by <<, so that another may take its place
}

type nodeKind uint8

const (
	nothing nodeKind = iota
	scalar
	list
	mapping
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

type spot struct{ line, column int }

// Bounds of a file. Aliases can make a short text a large tree.
const (
	maxFile   = 4 << 20
	maxDepth  = 64
	maxIndent = 256 // which bounds the depth of what has no brackets
	maxNodes  = 1_000_000
)

// A file is one that is being read, and what is wrong with it.
type file struct {
	name     string
	lines    []string
	anchors  map[string]ast.Node
	nodes    int
	problems rules.Problems
}

func (f *file) fail(at spot, format string, args ...any) {
	f.add(rules.Mistake, at, format, args...)
}

func (f *file) warn(at spot, format string, args ...any) {
	f.add(rules.Warning, at, format, args...)
}

func (f *file) add(severity rules.Severity, at spot, format string, args ...any) {
	p := rules.Problem{Severity: severity, Message: fmt.Sprintf(format, args...)}
	p.File, p.Line, p.Column = f.name, at.line, at.column
	if at.line >= 1 && at.line <= len(f.lines) {
		p.Text = strings.TrimSuffix(f.lines[at.line-1], "\r")
	}
	f.problems = append(f.problems, p)
}

// parse returns the root of a text; nothing if it is empty or cannot be read.
func (f *file) parse(data []byte) (root node) {
	root.at = spot{1, 1}
	switch {
	case len(data) > maxFile:
		f.fail(spot{}, "the file has %d bytes, at most %d", len(data), maxFile)
		return root
	case !utf8.Valid(data):
		f.fail(spot{}, "the file is not UTF-8")
		return root
	}
	f.lines, f.anchors = strings.Split(string(data), "\n"), map[string]ast.Node{}
	// What the parser does with a text that nobody has thought of must not end the process.
	defer func() {
		if p := recover(); p != nil {
			f.fail(spot{1, 1}, "cannot be read as YAML: %v", p)
			root = node{at: spot{1, 1}}
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if !f.shallow(tokens) {
		return root
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return root
	}
	for i, doc := range parsed.Docs {
		switch {
		case doc.Body == nil:
		case i > 0:
			f.fail(spotOf(doc.Body.GetToken()), "a second document begins here; write one a file")
		default:
			root = f.convert(doc.Body, 0)
		}
	}
	return root
}

// shallow refuses what is nested so deep that the parser would run out of stack.
func (f *file) shallow(tokens token.Tokens) bool {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType:
			if t.Position.Column > maxIndent {
				depth = maxDepth + 1
			}
		case token.MappingValueType:
			if t.Prev != nil && t.Prev.Position.Column > maxIndent && depth <= 0 {
				depth = maxDepth + 1
			}
		}
		if depth > maxDepth {
			f.fail(spotOf(t), "nested more than %d deep, or indented by more than %d", maxDepth, maxIndent)
			return false
		}
	}
	return true
}

func (f *file) syntax(err error) {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) && located.GetToken() != nil {
		f.fail(spotOf(located.GetToken()), "error loading config file: not YAML: %s", located.GetMessage())
		return
	}
	f.fail(spot{1, 1}, "error loading config file: not YAML: %v", err)
}

func spotOf(t *token.Token) spot {
	if t == nil || t.Position == nil {
		return spot{1, 1}
	}
	return spot{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// convert returns the parser's tree as nodes, with what aliases stand for in their places.
func (f *file) convert(from ast.Node, depth int) node {
	n := node{at: spotOf(from.GetToken())}
	if f.nodes++; f.nodes > maxNodes || depth > maxDepth {
		if f.nodes == maxNodes+1 || f.nodes < maxNodes {
			f.fail(n.at, "the file has more than %d parts, or is nested more than %d deep", maxNodes, maxDepth)
		}
		f.nodes = maxNodes + 1
		return n
	}
	switch from := from.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		n.kind = mapping
		for _, field := range from.Values {
			f.convertField(&n, field, depth)
		}
	case *ast.MappingValueNode:
		n.kind = mapping
		f.convertField(&n, from, depth)
	case *ast.SequenceNode:
		n.kind = list
		for _, value := range from.Values {
			n.items = append(n.items, f.convert(value, depth+1))
		}
	case *ast.AnchorNode:
		f.anchors[from.Name.String()] = from.Value
		return f.convert(from.Value, depth)
	case *ast.AliasNode:
		value, ok := f.anchors[from.Value.String()]
		if !ok {
			f.fail(n.at, "the anchor %.64s is not there", from.Value)
			return n
		}
		return f.convert(value, depth+1)
	case *ast.TagNode:
		return f.convert(from.Value, depth+1)
	case *ast.LiteralNode:
		n.kind, n.text = scalar, from.Value.Value
	case *ast.StringNode:
		n.kind, n.text = scalar, from.Value
		n.plain = from.Token.Type != token.SingleQuoteType && from.Token.Type != token.DoubleQuoteType
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text, n.plain = scalar, from.GetToken().Value, true
	default:
		f.fail(n.at, "%s is not read here", strings.ToLower(fmt.Sprint(from.Type())))
	}
	return n
}

func (f *file) convertField(n *node, field *ast.MappingValueNode, depth int) {
	item := f.convert(field.Value, depth+1)
	at := spotOf(field.Key.GetToken())
	if len(n.items) == 0 {
		n.at = at
	}
	if _, ok := field.Key.(*ast.MergeKeyNode); ok {
		n.merge(item)
		return
	}
	item.key, item.keyAt = field.Key.GetToken().Value, at
	if _, ok := field.Key.(*ast.StringNode); !ok {
		item.otherKey = true
	}
	if item.kind == nothing {
		item.at = at // there is nothing else to point at
	}
	n.put(item)
}

// merge adds the fields of a mapping, or of several, that the node does not have itself.
func (n *node) merge(from node) {
	if from.kind == list {
		for _, item := range from.items {
			n.merge(item)
		}
		return
	}
	n.mixed = true
	for _, item := range from.items {
		if n.field(item.key) == nil {
			item.merged = true
			n.items = append(n.items, item)
		}
	}
}

// put adds a field, in place of one that was merged.
func (n *node) put(item node) {
	if n.mixed { // else nobody has to look
		if have := n.field(item.key); have != nil && have.merged {
			*have = item
			return
		}
	}
	n.items = append(n.items, item)
}

func (n *node) field(key string) *node {
	for i := range n.items {
		if n.items[i].key == key {
			return &n.items[i]
		}
	}
	return nil
}

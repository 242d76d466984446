package rules

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of what is handed to the YAML parser. Its work grows with the square of a mapping's
// fields and with the depth, and its memory is some hundred times that of a mark.
const (
	maxDepth  = 32
	maxIndent = 256
	maxFields = 1000
	maxMarks  = 8_000_000 // commas, colons, brackets, lines
)

// readYAML returns the root of a text, nil if it is empty or cannot be read.
func (f *found) readYAML() *node {
	if !f.fewMarks() {
		return nil
	}
	if root := f.source.inPieces(pieceSize); root != nil {
		return root
	}
	return f.parseYAML()
}

func (f *found) parseYAML() (root *node) {
	// What the parser does with a text that nobody has thought of must not end the process.
	defer func() {
		if r := recover(); r != nil {
			f.add(Mistake, nil, spot{1, 1}, complain("cannot be read as YAML: %v", r))
			root = nil
		}
	}()
	tokens := lexer.Tokenize(f.source.text + "\n") // without it, the lexer forgets a tag at the end
	if f.refuseTokens(tokens); f.mistakes > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return nil
	}
	for _, doc := range file.Docs {
		if doc.Body != nil && root == nil {
			root = f.convert(doc.Body, 0)
		}
	}
	return root
}

func (f *found) fewMarks() bool {
	marks, line := 0, 1
	for i := range len(f.source.text) {
		switch f.source.text[i] {
		case '\n':
			line++
			marks++
		case ',', ':', '[', ']', '{', '}', '-':
			marks++
		}
		if marks > maxMarks {
			f.add(Mistake, nil, spot{int32(line), 1}, complain("the document has more than %d lines and marks", maxMarks))
			return false
		}
	}
	return true
}

func (f *found) syntax(err error) {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) && located.GetToken() != nil {
		f.add(Mistake, nil, spotOf(located.GetToken()), complain("not YAML: %s", located.GetMessage()))
		return
	}
	f.add(Mistake, nil, spot{1, 1}, complain("not YAML: %v", err))
}

// refused are parts of YAML that make a text mean other than it says, or grow when it is read.
var refused = map[token.Type]*complaint{
	token.AnchorType:      complain("anchors are not read here").but(`write "&…" in quotes if it is a value`),
	token.AliasType:       complain("aliases are not read here").but(`write "*…" in quotes if it is a pattern`),
	token.TagType:         complain("tags are not read here").but(`write "!…" in quotes if it is a value or an expression`),
	token.MergeKeyType:    complain("merge keys are not read here").but("write the fields out"),
	token.DirectiveType:   complain("directives are not read here"),
	token.MappingKeyType:  complain("explicit keys are not read here").but("write key: value"),
	token.DocumentEndType: complain("document ends are not read here").but("leave ... out"),
}

// refuseTokens complains about all that must not reach the parser.
func (f *found) refuseTokens(tokens token.Tokens) {
	var (
		depth   int                // of brackets
		mapping [maxDepth]bool     // which of them are braces
		commas  [maxDepth]int      // within each
		fields  [maxIndent + 1]int // of the block mapping at each column
		begun   bool               // there was something before
	)
	for _, t := range tokens {
		if t.Type == token.DocumentHeaderType && begun {
			f.add(Mistake, nil, spotOf(t), complain("a second document begins here").but("write everything in one"))
		}
		begun = begun || t.Type == token.DocumentHeaderType || t.Type == token.MappingValueType || t.Type == token.SequenceEntryType
		if c := refused[t.Type]; c != nil {
			f.add(Mistake, nil, spotOf(t), c)
			continue
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			if depth == maxDepth {
				f.add(Mistake, nil, spotOf(t), complain("brackets are nested more than %d deep", maxDepth))
				return
			}
			mapping[depth], commas[depth] = t.Type == token.MappingStartType, 0
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth = max(depth-1, 0)
		case token.CollectEntryType:
			if depth == 0 || !mapping[depth-1] {
				continue
			}
			if commas[depth-1]++; commas[depth-1] == maxFields {
				f.add(Mistake, nil, spotOf(t), complain("a mapping has more than %d fields", maxFields))
				return
			}
		case token.SequenceEntryType, token.MappingValueType:
			if depth > 0 {
				continue
			}
			isField := t.Type == token.MappingValueType
			if isField && t.Prev != nil {
				t = t.Prev // the key
			}
			column := max(t.Position.Column, 0)
			if column > maxIndent {
				f.add(Mistake, nil, spotOf(t), complain("indented by more than %d", maxIndent))
				return
			}
			clear(fields[column+1:])
			if !isField {
				continue
			}
			if fields[column]++; fields[column] > maxFields {
				f.add(Mistake, nil, spotOf(t), complain("a mapping has more than %d fields", maxFields))
				return
			}
		}
	}
}

func spotOf(t *token.Token) spot {
	if t == nil || t.Position == nil {
		return spot{1, 1}
	}
	return spot{int32(max(t.Position.Line, 1)), int32(max(t.Position.Column, 1))}
}

// convert returns the parser's tree as nodes.
func (f *found) convert(from ast.Node, depth int) *node {
	n := &node{at: spotOf(from.GetToken())}
	if depth > maxDepth {
		f.add(Mistake, nil, n.at, complain("nested more than %d deep", maxDepth))
		return n
	}
	switch from := from.(type) {
	case *ast.NullNode:
	case *ast.MappingNode:
		n.kind = mappingNode
		n.items = make([]node, 0, len(from.Values))
		for _, field := range from.Values {
			f.convertField(n, field, depth)
		}
		if len(n.items) > 0 && !from.IsFlowStyle {
			n.at = n.items[0].keyAt
		}
	case *ast.MappingValueNode:
		n.kind = mappingNode
		f.convertField(n, from, depth)
		n.at = n.items[0].keyAt
	case *ast.SequenceNode:
		n.kind = listNode
		n.items = make([]node, 0, len(from.Values))
		for i, value := range from.Values {
			item := f.convert(value, depth+1)
			if value.GetToken().Type == token.ImplicitNullType && i < len(from.Entries) {
				item.at = spotOf(from.Entries[i].Start) // there is nothing else to point at
			}
			n.items = append(n.items, *item)
		}
	case *ast.LiteralNode:
		n.kind, n.style, n.text = scalarNode, literal, from.Value.Value
		if from.Start.Type == token.FoldedType {
			n.style = folded
		}
	case *ast.StringNode:
		n.kind, n.text = scalarNode, from.Value
		if t := from.Token.Type; t == token.SingleQuoteType || t == token.DoubleQuoteType {
			n.style = quoted
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		n.kind, n.text = scalarNode, from.GetToken().Value
	default:
		f.add(Mistake, nil, n.at, complain("%s is not read here", strings.ToLower(fmt.Sprint(from.Type()))))
	}
	return n
}

func (f *found) convertField(n *node, field *ast.MappingValueNode, depth int) {
	item := f.convert(field.Value, depth+1)
	t := field.Key.GetToken()
	item.key, item.keyAt = t.Value, spotOf(t)
	if item.kind == nullNode {
		item.at = item.keyAt // where there is nothing to point at
	}
	n.items = append(n.items, *item)
}

package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// readYAML takes the values that a text has. It does not stop at the first mistake.
func (l *loader) readYAML(name string, text []byte, into reflect.Value, prefix string) {
	root, err := parseYAML(text)
	if err != nil {
		l.fail(fmt.Errorf("%s:%w", name, err))
		return
	}
	if root != nil {
		l.readNode(name, root, into, prefix)
	}
}

// parseYAML returns the one document of a text; nil if it is empty.
func parseYAML(text []byte) (root ast.Node, err error) {
	defer func() { // what the parser does with a text nobody has thought of must not end the process
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", p)
		}
	}()
	tokens := lexer.Tokenize(string(text) + "\n") // without it, the lexer forgets a tag at the end
	if err := refuse(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		var located interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &located) && located.GetToken() != nil {
			at := located.GetToken().Position
			return nil, fmt.Errorf("%d:%d: %s", at.Line, at.Column, located.GetMessage())
		}
		return nil, err
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType:
		case root != nil:
			return nil, errors.New("it has several documents; one is what is read")
		default:
			root = doc.Body
		}
	}
	return root, nil
}

// refused are parts of YAML that nobody needs here and the parser has trouble with.
var refused = map[token.Type]string{
	token.AnchorType:     "anchors",
	token.AliasType:      "aliases",
	token.TagType:        "tags",
	token.MergeKeyType:   "merge keys",
	token.DirectiveType:  "directives",
	token.MappingKeyType: "explicit keys",
}

// maxDepth of brackets.
const maxDepth = 16

func refuse(tokens token.Tokens) error {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if what := refused[t.Type]; what != "" {
			return fmt.Errorf("%d:%d: %s are not read here; a value that looks like one needs quotes", t.Position.Line, t.Position.Column, what)
		}
		if depth > maxDepth {
			return fmt.Errorf("%d:%d: brackets are nested more than %d deep", t.Position.Line, t.Position.Column, maxDepth)
		}
	}
	return nil
}

// readNode reads what stands at a node into a struct, a list or a single value.
func (l *loader) readNode(name string, n ast.Node, into reflect.Value, path string) {
	place := fmt.Sprintf("%s:%d:%d", name, n.GetToken().Position.Line, n.GetToken().Position.Column)
	switch {
	case isSection(into):
		l.readSection(name, place, n, into, path)
	case into.Kind() == reflect.Slice:
		l.readList(name, place, n, into, path)
	default:
		text, ok := scalar(n)
		if !ok {
			l.misread(place, path, "one value belongs here; if it is a text with a colon, quote it")
			return
		}
		l.set(path, text, place)
	}
}

func isSection(v reflect.Value) bool { return hasKeys(v.Type()) }

func isListOfSections(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && hasKeys(v.Type().Elem())
}

func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.Field(0).Tag.Get("key") != ""
}

func (l *loader) readSection(name, place string, n ast.Node, into reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	var known []string
	for i := range into.NumField() {
		if key := into.Type().Field(i).Tag.Get("key"); key != "" {
			fields[key], known = into.Field(i), append(known, key)
		}
	}
	slices.Sort(known)
	for _, item := range mappingItems(n) {
		key := item.Key.GetToken()
		field, ok := fields[key.Value]
		if !ok {
			at := fmt.Sprintf("%s:%d:%d", name, key.Position.Line, key.Position.Column)
			l.note(at, strings.TrimSuffix(path, "."), "unknown field %.64q; here belong %s", key.Value, strings.Join(known, ", "))
			continue
		}
		below := path + key.Value
		if isSection(field) {
			below += "."
		}
		l.readNode(name, item.Value, field, below)
	}
	if n.Type() != ast.MappingType && n.Type() != ast.MappingValueType && n.Type() != ast.NullType {
		l.misread(place, strings.TrimSuffix(path, "."), "fields belong here: %s", strings.Join(known, ", "))
	}
}

func mappingItems(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func (l *loader) readList(name, place string, n ast.Node, into reflect.Value, path string) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		l.misread(place, path, "a list belongs here, for example [a, b]")
		return
	}
	list := reflect.MakeSlice(into.Type(), len(sequence.Values), len(sequence.Values))
	into.Set(list)
	l.origin[path] = place
	for i, item := range sequence.Values {
		element, below := list.Index(i), fmt.Sprintf("%s[%d]", path, i)
		if isSection(element) {
			element.Set(reflect.ValueOf(defaultUpstream()))
			l.know(element, below+".")
			l.readNode(name, item, element, below+".")
			continue
		}
		l.settings[below] = &setting{path: below, oneof: l.oneof(path), value: element}
		l.readNode(name, item, element, below)
	}
}

// scalar returns the text of a single value, as it was written: what it means is for the setting to
// say.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.StringNode:
		return n.Value, true
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	return "", false
}

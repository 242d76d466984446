package rules

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// YAML formats the document for people. Parsing the result returns the same document.
func (d *Document) YAML() []byte {
	var b strings.Builder
	writeBlock(d.node(), &b, 0, false)
	return []byte(b.String())
}

// JSON formats the document on one line. Parsing the result returns the same document.
func (d *Document) JSON() []byte {
	var b strings.Builder
	writeFlow(d.node(), &b, true)
	return []byte(b.String())
}

// MarshalJSON is [Document.JSON].
func (d *Document) MarshalJSON() ([]byte, error) { return d.JSON(), nil }

func (d *Document) node() *node { return fieldsToNode(reflect.ValueOf(d).Elem()) }

func fieldsToNode(v reflect.Value) *node {
	n := &node{Kind: strictdoc.Mapping}
	for _, f := range fieldsOf(v.Type()) {
		if value := v.Field(f.index); f.required || !isEmpty(value) {
			n.Add(f.name, valueToNode(value))
		}
	}
	return n
}

// isEmpty reports whether a value can be omitted.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); !ok && len(fieldsOf(v.Type())) > 0 {
			return !slices.ContainsFunc(fieldsOf(v.Type()), func(f field) bool { return !isEmpty(v.Field(f.index)) })
		}
	}
	return v.IsZero()
}

func valueToNode(v reflect.Value) *node {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.CanAddr() { // element of a map
		copied := reflect.New(v.Type()).Elem()
		copied.Set(v)
		v = copied
	}
	switch from := v.Addr().Interface().(type) {
	case shaper:
		return from.toNode()
	case *time.Time:
		return scalarOf(from.UTC().Format(time.RFC3339Nano))
	case fmt.Stringer:
		return textNode(from.String())
	}
	switch v.Kind() {
	case reflect.String:
		return textNode(v.String())
	case reflect.Int64:
		return scalarOf(strconv.FormatInt(v.Int(), 10))
	case reflect.Bool:
		return scalarOf(strconv.FormatBool(v.Bool()))
	case reflect.Struct:
		return fieldsToNode(v)
	case reflect.Slice:
		n := &node{Kind: strictdoc.List}
		for i := range v.Len() {
			n.Items = append(n.Items, *valueToNode(v.Index(i)))
		}
		return n
	}
	n := &node{Kind: strictdoc.Mapping} // a map, in key order
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		n.Add(key.String(), valueToNode(v.MapIndex(key)))
	}
	return n
}

// textNode returns a scalar, quoted if it would otherwise be read as something else.
func textNode(text string) *node {
	if isPlain(text) {
		return scalarOf(text)
	}
	return quotedOf(text)
}

// isPlain reports whether a text means the same without quotes anywhere in YAML.
func isPlain(text string) bool {
	if text == "" || !isLetter(text[0]) && !isDigit(text[0]) && text[0] != '/' {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("._-/?%", c) < 0 {
			return c == ':' && isTime(text)
		}
	}
	return !slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "y", "n"}, strings.ToLower(text))
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// writeBlock writes a mapping or list over several lines, and small items within it on one line. inline says that
// the first line has already begun.
func writeBlock(n *node, b *strings.Builder, indent int, inline bool) {
	margin := strings.Repeat("  ", indent)
	for i := range n.Items {
		item := &n.Items[i]
		if i > 0 || !inline {
			b.WriteString(margin)
		}
		isField := n.Kind == strictdoc.Mapping
		mark, after := "-", " "
		if isField {
			mark, after = plainOrQuoted(item.Key)+":", "\n"
		}
		if isSmall(item) && !isSection(n, indent, item) {
			b.WriteString(mark + " ")
			writeFlow(item, b, false)
			b.WriteByte('\n')
		} else {
			b.WriteString(mark + after)
			writeBlock(item, b, indent+1, !isField)
		}
	}
}

// isSection reports whether a node gets its own lines even if it is small: the document's top-level fields, and
// rules.
func isSection(n *node, indent int, item *node) bool {
	return len(item.Items) > 0 && (indent == 0 || indent == 1 && n.Kind == strictdoc.List)
}

// isSmall reports whether a node fits on a line.
func isSmall(n *node) bool {
	const most = 100
	if n.Kind == strictdoc.Scalar || len(n.Items) == 0 {
		return true
	}
	room := most
	return fits(n, &room, 0)
}

func fits(n *node, room *int, depth int) bool {
	*room -= len(n.Text) + len(n.Key) + 4
	for i := range n.Items {
		if item := &n.Items[i]; depth > 1 && len(item.Items) > 0 || !fits(item, room, depth+1) {
			return false
		}
	}
	return *room > 0
}

func writeFlow(n *node, b *strings.Builder, asJSON bool) {
	open, end := byte('['), byte(']')
	switch n.Kind {
	case strictdoc.Null:
		b.WriteString("null")
		return
	case strictdoc.Scalar:
		b.WriteString(scalarText(n, asJSON))
		return
	case strictdoc.Mapping:
		open, end = '{', '}'
	}
	b.WriteByte(open)
	for i := range n.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		if n.Kind == strictdoc.Mapping {
			key := plainOrQuoted(n.Items[i].Key)
			if asJSON {
				key = quote(n.Items[i].Key)
			}
			b.WriteString(key + ": ")
		}
		writeFlow(&n.Items[i], b, asJSON)
	}
	b.WriteByte(end)
}

func scalarText(n *node, asJSON bool) string {
	if n.Style == strictdoc.Plain && (!asJSON || json.Valid([]byte(n.Text))) {
		return n.Text
	}
	return quote(n.Text)
}

func plainOrQuoted(text string) string { return scalarText(textNode(text), false) }

// quote formats a text as a JSON string, which is also valid YAML.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c <= 0xffff && !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

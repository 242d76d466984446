package config

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/internal/urlform"
)

// Bounds of a configuration, besides its size in bytes.
const (
	maxValues = 10_000
	maxDepth  = 16
)

// readYAML reads the values of a text. It does not stop at the first error.
func (l *loader) readYAML(name string, text []byte, into reflect.Value, prefix string) {
	root, err := strictdoc.Read(context.Background(), string(text), strictdoc.Options{MaxBytes: maxFile, MaxNodes: maxValues, MaxDepth: maxDepth})
	if err != nil {
		l.fail(fmt.Errorf("%s:%w", name, err))
		return
	}
	if root != nil {
		l.readNode(name, root, into, prefix)
	}
}

// readNode reads a node into a struct, a list or a single value.
func (l *loader) readNode(name string, n *strictdoc.Node, into reflect.Value, path string) {
	place := placeOf(name, n.At)
	switch {
	case isSection(into):
		l.readSection(name, place, n, into, path)
	case into.Kind() == reflect.Slice:
		l.readList(name, place, n, into, path)
	default:
		if n.Kind > strictdoc.Scalar {
			l.reportInvalid(place, path, "must be a single value; quote text that contains a colon")
			return
		}
		l.set(path, n.Text, place) // as it is written; the setting interprets it
	}
}

func placeOf(name string, at strictdoc.Position) string {
	return fmt.Sprintf("%s:%d:%d", name, at.Line, at.Column)
}

func isSection(v reflect.Value) bool { return hasKeys(v.Type()) }

func isListOfSections(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && hasKeys(v.Type().Elem())
}

func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.Field(0).Tag.Get("key") != ""
}

func (l *loader) readSection(name, place string, n *strictdoc.Node, into reflect.Value, path string) {
	fields := map[string]reflect.Value{}
	var known []string
	for i := range into.NumField() {
		if key := into.Type().Field(i).Tag.Get("key"); key != "" {
			fields[key], known = into.Field(i), append(known, key)
		}
	}
	slices.Sort(known)
	seen := map[string]bool{}
	for i := range n.Items {
		item := &n.Items[i]
		field, ok := fields[item.Key]
		at := placeOf(name, item.KeyAt)
		switch {
		case n.Kind != strictdoc.Mapping:
			continue
		case !ok:
			l.noteUnknown(at, strings.TrimSuffix(path, "."), item.Key, known)
			continue
		case seen[item.Key]:
			l.reportInvalid(at, path+item.Key, "set twice")
			continue
		}
		seen[item.Key] = true
		below := path + item.Key
		if isSection(field) {
			below += "."
		}
		l.readNode(name, item, field, below)
	}
	if n.Kind == strictdoc.Scalar || n.Kind == strictdoc.List {
		l.reportInvalid(place, strings.TrimSuffix(path, "."), "must have fields: %s", strings.Join(known, ", "))
	}
}

// noteUnknown reports a field that does not exist. Its name may be a URL without quotes.
func (l *loader) noteUnknown(at, path, key string, known []string) {
	if meant := spelling.Closest(key, known); meant != "" {
		l.note(at, path, "unknown field %.64q, did you mean %s?", urlform.Redact(key), meant)
		return
	}
	l.note(at, path, "unknown field %.64q; known fields: %s", urlform.Redact(key), strings.Join(known, ", "))
}

func (l *loader) readList(name, place string, n *strictdoc.Node, into reflect.Value, path string) {
	if n.Kind != strictdoc.List {
		l.reportInvalid(place, path, "must be a list, for example [a, b]")
		return
	}
	list := reflect.MakeSlice(into.Type(), len(n.Items), len(n.Items))
	into.Set(list)
	l.origin[path] = place
	for i := range n.Items {
		item := &n.Items[i]
		element, below := list.Index(i), fmt.Sprintf("%s[%d]", path, i)
		if isSection(element) {
			if item, ok := element.Addr().Interface().(interface{ setDefaults() }); ok {
				item.setDefaults()
			}
			l.listSettings(element, below+".")
			l.readNode(name, item, element, below+".")
			continue
		}
		l.settings[below] = &setting{path: below, oneof: l.settings[path].oneof, value: element}
		l.readNode(name, item, element, below)
	}
}

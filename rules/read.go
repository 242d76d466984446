package rules

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/strictdoc"
)

// A field is a field of the document's structs, as its tags describe it.
type field struct {
	name     string
	index    int
	required bool
	nullable bool
	min, max int64 // no bounds if both are 0
	as, doc  string
}

var fieldsOfType sync.Map // reflect.Type → []field

func fieldsOf(t reflect.Type) []field {
	if known, ok := fieldsOfType.Load(t); ok {
		return known.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		name, option, _ := strings.Cut(tag.Get("rules"), ",")
		if name == "" || name == "-" {
			continue
		}
		f := field{name: name, index: i, required: option == "required", nullable: option == "nullable", as: tag.Get("as"), doc: tag.Get("doc")}
		fmt.Sscan(tag.Get("min"), &f.min)
		fmt.Sscan(tag.Get("max"), &f.max)
		fields = append(fields, f)
	}
	fieldsOfType.Store(t, fields)
	return fields
}

// A scalarField is written as a single value.
type scalarField interface {
	readText(text string) *valueProblem
}

// A shaper can be written in more than one form.
type shaper interface {
	readNode(r *reader, n *node)
	toNode() *node
	schema(s *schemas) map[string]any
}

// A reader fills a document's values from nodes. It continues after an error.
type reader struct {
	*problemCollector
	path     path
	declared map[string]bool // attributes whose source the document declares; made when first needed
}

func (r *reader) fail(n *node, c *valueProblem) {
	r.add(Mistake, append(path(nil), r.path...), r.source.within(n, c.offset), c)
}

// readBelow reads something below a field or an index.
func (r *reader) readBelow(step any, read func()) {
	r.path = append(r.path, step)
	read()
	r.path = r.path[:len(r.path)-1]
}

// partName names the part that is being read.
func (r *reader) partName() string {
	for i := len(r.path) - 1; i >= 0; i-- {
		if name, ok := r.path[i].(string); ok {
			if i < len(r.path)-1 {
				return "an item of " + name
			}
			return name
		}
	}
	return "the document"
}

func (r *reader) read(n *node, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if !r.readAs(n, v) {
		r.readKind(n, v)
	}
}

// readAs reads a value whose type has its own parser. It returns false for other types.
func (r *reader) readAs(n *node, v reflect.Value) bool {
	switch to := v.Addr().Interface().(type) {
	case shaper:
		to.readNode(r, n)
	case *time.Time:
		r.readTime(n, to)
	case scalarField:
		if text, ok := r.scalar(n); ok {
			if c := to.readText(text); c != nil {
				r.fail(n, c)
			}
		}
	case encoding.TextUnmarshaler:
		if text, ok := r.scalar(n); ok {
			known := namesOf(v.Type())
			if err := to.UnmarshalText([]byte(text)); err != nil || known != nil && !slices.Contains(known, text) {
				r.fail(n, r.invalidText(err, text, v.Type()))
			}
		}
	default:
		return false
	}
	return true
}

func (r *reader) readKind(n *node, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := r.scalar(n); ok {
			v.SetString(text)
		}
	case reflect.Int64:
		r.readNumber(n, v)
	case reflect.Bool:
		r.readBool(n, v)
	case reflect.Struct:
		r.readFields(n, v, nil)
	case reflect.Slice:
		r.readList(n, v)
	case reflect.Map:
		r.readMap(n, v)
	}
}

// invalidText returns the complaint about a text that a type rejects.
func (r *reader) invalidText(err error, text string, t reflect.Type) *valueProblem {
	if names := namesOf(t); names != nil {
		return meantName(complain("unknown %s %.64q", r.partName(), text), text, names)
	}
	if c, ok := errors.AsType[*valueProblem](err); ok {
		return c
	}
	return complain("%s: %v", r.partName(), err)
}

func (r *reader) readList(n *node, v reflect.Value) {
	if n.Kind != strictdoc.List {
		c := complain("%s must be a list, not %v", r.partName(), n.Kind)
		if n.Kind == strictdoc.Scalar && n.Style == strictdoc.Plain {
			c.suggest("write [%.40s]", n.Text)
		}
		r.fail(n, c)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, min(len(n.Items), 64)))
	for i := 0; i < len(n.Items) && r.goOn(); i++ {
		v.Grow(1) // unreadable values must not use the memory of readable ones
		v.SetLen(i + 1)
		r.readBelow(i, func() { r.readItem(&n.Items[i], v.Index(i)) })
	}
}

// tooMany reports a list or a mapping with too many items, before any of them is read.
func (r *reader) tooMany(n *node, name string, least, most int64) bool {
	if most == 0 || int64(len(n.Items)) <= most {
		return false
	}
	r.fail(n, complain("%s has %d items, must be from %d to %d", name, len(n.Items), least, most))
	return true
}

func (r *reader) readItem(n *node, v reflect.Value) {
	if n.Kind == strictdoc.Null {
		r.fail(n, complain("%s is empty", r.partName()))
		return
	}
	r.read(n, v)
}

// isMapping reports whether a node is a mapping. It complains if not, and about duplicate fields.
func (r *reader) isMapping(n *node) bool {
	if n.Kind != strictdoc.Mapping {
		r.fail(n, complain("%s must be a mapping, not %v", r.partName(), n.Kind))
		return false
	}
	if r.tooMany(n, r.partName(), 0, strictdoc.MaxFields) {
		return false
	}
	seen := make(map[string]position, len(n.Items))
	for i := range n.Items {
		item := &n.Items[i]
		if first, ok := seen[item.Key]; ok {
			c := complain("%.64s is given twice", item.Key).suggest("the first is at %d:%d", first.Line, first.Column)
			r.add(Mistake, r.path.with(item.Key), item.KeyAt, c)
			continue
		}
		seen[item.Key] = item.KeyAt
	}
	return true
}

func (r *reader) readMap(n *node, v reflect.Value) {
	if isPatterns := v.Type() == reflect.TypeFor[Patterns](); isPatterns && r.tooMany(n, r.partName(), 1, maxPatterns) || !r.isMapping(n) {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Items)))
	for i := 0; i < len(n.Items) && r.goOn(); i++ {
		item := &n.Items[i]
		r.readBelow(item.Key, func() {
			if c := checkAttributeName(item.Key); c != nil {
				r.add(Mistake, r.path.with(), item.KeyAt, c)
			}
			value := reflect.New(v.Type().Elem()).Elem()
			r.readItem(item, value)
			v.SetMapIndex(reflect.ValueOf(item.Key), value)
		})
	}
}

// readFields fills a struct. It passes unknown fields to other, and reports an error for those that other
// rejects.
func (r *reader) readFields(n *node, v reflect.Value, other func(item *node) bool) {
	if !r.isMapping(n) {
		return
	}
	fields := fieldsOf(v.Type())
	given := make([]bool, v.NumField())
	for i := 0; i < len(n.Items) && r.goOn(); i++ {
		item := &n.Items[i]
		f := fieldNamed(fields, item.Key)
		if f == nil {
			if other == nil || !other(item) {
				r.unknown(item, fields)
			}
			continue
		}
		given[f.index] = true
		if item.Kind == strictdoc.Null && f.nullable {
			continue
		}
		r.readBelow(f.name, func() {
			if item.Kind == strictdoc.Null {
				r.fail(item, f.empty())
				return
			}
			r.readBounded(item, f, v.Field(f.index))
		})
	}
	for i := range fields {
		if f := &fields[i]; f.required && !given[f.index] {
			r.add(Mistake, r.path.with(f.name), n.At, complain("%s is missing", f.name).suggest("as in %s", f.as))
		}
	}
}

// readBounded reads the value of a field and checks its bounds: the number of items before any of them is read.
func (r *reader) readBounded(n *node, f *field, v reflect.Value) {
	if r.tooMany(n, f.name, f.min, f.max) {
		return
	}
	before := r.mistakes
	r.read(n, v)
	if r.mistakes == before {
		r.bounds(n, f, v)
	}
}

// empty returns the complaint that a field has no value.
func (f *field) empty() *valueProblem {
	c := complain("%s is empty", f.name)
	if f.as != "" {
		return c.suggest("as in %s", f.as)
	}
	return c.suggest("leave it out or give it a value")
}

func fieldNamed(fields []field, name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

func (r *reader) unknown(item *node, fields []field) {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	c := complain("unknown field %.64s", item.Key)
	r.add(Mistake, r.path.with(item.Key), item.KeyAt, meantName(c, item.Key, names))
}

// meantName adds to c the most similar known name, or the list of known names.
func meantName(c *valueProblem, name string, known []string) *valueProblem {
	if meant := spelling.Closest(strings.ToLower(name), known); meant != "" {
		return c.suggest("did you mean %s?", meant)
	}
	return c.suggest("must be one of %s", strings.Join(known, ", "))
}

// bounds checks a number, or the length of a text or list.
func (r *reader) bounds(n *node, f *field, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if f.max == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Int64:
		if v.Int() < f.min || v.Int() > f.max {
			r.fail(n, complain("%s %d must be from %d to %d", f.name, v.Int(), f.min, f.max))
		}
	case reflect.String:
		switch {
		case v.Len() > int(f.max):
			r.fail(n, complain("%s has %d bytes, at most %d", f.name, v.Len(), f.max))
		case v.Len() == 0:
			r.fail(n, f.empty())
		}
	case reflect.Slice, reflect.Map:
		if v.Len() < int(f.min) || v.Len() > int(f.max) {
			r.fail(n, complain("%s has %d items, must be from %d to %d", f.name, v.Len(), f.min, f.max))
		}
	}
}

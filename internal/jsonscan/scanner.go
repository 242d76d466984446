// Package jsonscan finds fields of a JSON text that arrives in parts. It keeps only the fields, so its memory does
// not grow with the text.
package jsonscan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of a text. A text beyond them counts as invalid, because no field of it could be trusted.
const (
	MaxDepth  = 1024 // of nested objects and arrays
	maxNumber = 64   // characters of a number
)

// Fields are the fields to find, prepared for scanning. They are immutable.
type Fields struct {
	paths  []fieldPath
	values int // how many fields
	maxKey int // bytes; a longer key is none of ours
}

// A fieldPath is one way to write a field: the names of the objects that it is in, and its own.
type fieldPath struct {
	names []string
	field int
}

// Compile prepares fields, each given by one or more paths: a.b is b within the object a. Paths do not lead into
// arrays.
func Compile(fields ...[]string) *Fields {
	f := &Fields{values: len(fields)}
	for i, paths := range fields {
		for _, path := range paths {
			names := strings.Split(path, ".")
			f.paths = append(f.paths, fieldPath{names, i})
			for _, name := range names {
				f.maxKey = max(f.maxKey, utf8.UTFMax*len(name)) // letters that differ in case may differ in length
			}
		}
	}
	return f
}

// Kind is the type of a value.
type Kind uint8

const (
	Missing Kind = iota
	String
	Number
	Bool
	Null
	Composite // an object or array
)

// A Value is what a text has for a field.
type Value struct {
	Kind  Kind
	Text  string // of a string, decoded; of a number or bool, as written
	Long  bool   // it is longer than the scanner keeps: Text is its beginning
	Times int    // how often the field occurs. Names are compared without case, as some decoders do
}

// A Scanner reads a text. Write reports the first error and then ignores the rest; Close reports a text that ends too
// early. Of a field that occurs several times the last value counts, and null never replaces another value.
type Scanner struct {
	fields   *Fields
	maxValue int  // bytes of a value
	stream   bool // several texts may follow each other

	state  state
	err    error
	texts  int // complete ones
	values []Value

	depth   int
	objects [MaxDepth/64 + 1]uint64 // whether the container at each depth is an object
	matched []int                   // for each path, how many of its names the open objects have, in order
	next    []int                   // paths that the current key continues

	text    []byte // of the current key, string, number or word
	limit   int    // bytes to keep of it
	long    bool
	isKey   bool
	escape  rune // digits of \u so far
	digits  int
	leading rune // the first half of a surrogate pair

	skipped  skipState // within a value that is skipped
	skipFrom int       // its depth
}

// state says what the scanner expects.
type state uint8

const (
	wantText    state = iota // outside of any text
	wantValue                // after a colon, or a comma in an array
	wantElement              // after [: a value or ]
	wantKey                  // after a comma in an object
	wantMember               // after {: a key or }
	wantColon
	wantComma // after a value: a comma or the end of the container
	inString
	inEscape
	inUnicode
	inWord // a number, true, false or null
	inSkipped
)

// New returns a scanner that keeps at most maxValue bytes of each value. A stream may hold several texts.
func New(f *Fields, maxValue int, stream bool) *Scanner {
	return &Scanner{fields: f, maxValue: maxValue, stream: stream, values: make([]Value, f.values), matched: make([]int, len(f.paths))}
}

// Restart begins a new text. It keeps the values.
func (s *Scanner) Restart() {
	s.state, s.err, s.depth, s.texts = wantText, nil, 0, 0
	s.next, s.text, s.leading = s.next[:0], s.text[:0], 0
	clear(s.matched)
}

// Value returns a field, by its index in Compile.
func (s *Scanner) Value(field int) Value { return s.values[field] }

// Write scans the next part of the text.
func (s *Scanner) Write(p []byte) (int, error) {
	for i := 0; i < len(p) && s.err == nil; {
		switch s.state {
		case inString:
			i += s.run(p[i:])
		case inSkipped:
			i += s.skip(p[i:])
		default:
			steps[s.state](s, p[i])
			i++
		}
	}
	return len(p), s.err
}

// Close reports whether the text is complete.
func (s *Scanner) Close() error {
	if s.err == nil && s.state == inWord && s.depth == 0 {
		s.endWord()
	}
	if s.err == nil && (s.state != wantText || s.texts == 0) {
		s.err = errors.New("the JSON text ends too early")
	}
	return s.err
}

func (s *Scanner) fail(c byte) { s.err = fmt.Errorf("unexpected %q in a JSON text", c) }

// steps handle one byte in each state, except inString and inSkipped. Handlers call each other, so init fills it.
var steps [inWord + 1]func(*Scanner, byte)

func init() {
	steps = [...]func(*Scanner, byte){
		wantText:    (*Scanner).betweenTexts,
		wantValue:   (*Scanner).value,
		wantElement: func(s *Scanner, c byte) { s.first(c, ']', (*Scanner).value) },
		wantKey:     (*Scanner).key,
		wantMember:  func(s *Scanner, c byte) { s.first(c, '}', (*Scanner).key) },
		wantColon:   (*Scanner).colon,
		wantComma:   (*Scanner).comma,
		inEscape:    (*Scanner).escaped,
		inUnicode:   (*Scanner).unicode,
		inWord:      (*Scanner).word,
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

func (s *Scanner) betweenTexts(c byte) {
	switch {
	case isSpace(c):
	case s.texts > 0 && !s.stream:
		s.fail(c)
	default:
		s.value(c)
	}
}

// first handles what follows the beginning of a container: its end, or its first element.
func (s *Scanner) first(c, end byte, otherwise func(*Scanner, byte)) {
	if c == end {
		s.close()
		return
	}
	otherwise(s, c)
}

func (s *Scanner) value(c byte) {
	switch {
	case isSpace(c):
	case len(s.next) == 0 && s.depth > 0:
		s.state, s.skipFrom, s.skipped = inSkipped, s.depth, skipAny
		s.skipFirst(c)
	case c == '{', c == '[':
		s.open(c == '{')
	case c == '"':
		s.begin(inString, s.maxValue)
	case c == '-', c >= '0' && c <= '9', c >= 'a' && c <= 'z':
		s.begin(inWord, maxNumber)
		s.word(c)
	default:
		s.fail(c)
	}
}

// begin begins a key, string, number or word.
func (s *Scanner) begin(in state, limit int) {
	s.state, s.limit, s.isKey, s.long = in, limit, false, false
	s.text = s.text[:0]
}

func (s *Scanner) key(c byte) {
	switch {
	case isSpace(c):
	case c == '"':
		s.begin(inString, s.fields.maxKey)
		s.isKey = true
	default:
		s.fail(c)
	}
}

func (s *Scanner) colon(c byte) {
	switch {
	case isSpace(c):
	case c == ':':
		s.state = wantValue
	default:
		s.fail(c)
	}
}

func (s *Scanner) comma(c byte) {
	switch isObject := s.isObject(); {
	case isSpace(c):
	case c == ',' && isObject:
		s.state = wantKey
	case c == ',':
		s.state = wantValue
	case c == '}' && isObject, c == ']' && !isObject:
		s.close()
	default:
		s.fail(c)
	}
}

func (s *Scanner) isObject() bool { return s.objects[s.depth/64]>>(s.depth%64)&1 == 1 }

func (s *Scanner) open(object bool) {
	if s.depth == MaxDepth {
		s.err = fmt.Errorf("a JSON text with more than %d levels", MaxDepth)
		return
	}
	s.keep(Value{Kind: Composite})
	if object {
		for _, i := range s.next {
			s.matched[i] = s.depth
		}
	}
	s.next = s.next[:0]
	if !object && s.depth > 0 { // no path leads into an array
		s.state, s.skipFrom, s.skipped = inSkipped, s.depth, skipElement
		s.enter(false)
		return
	}
	s.enter(object)
	if s.state = wantElement; object {
		s.state = wantMember
	}
}

// enter begins an object or array.
func (s *Scanner) enter(object bool) {
	s.depth++
	s.objects[s.depth/64] &^= 1 << (s.depth % 64)
	if object {
		s.objects[s.depth/64] |= 1 << (s.depth % 64)
	}
}

func (s *Scanner) close() {
	s.depth--
	for i := range s.matched {
		s.matched[i] = min(s.matched[i], max(s.depth-1, 0))
	}
	s.ended()
}

// ended is called after each value.
func (s *Scanner) ended() {
	s.next = s.next[:0]
	if s.state = wantComma; s.depth == 0 {
		s.state = wantText
		s.texts++
	}
}

// keep records the current value for the fields whose path ends here.
func (s *Scanner) keep(v Value) {
	for _, i := range s.next {
		p := &s.fields.paths[i]
		if len(p.names) != s.depth {
			continue
		}
		have := &s.values[p.field]
		v.Times = have.Times + 1
		if v.Kind == Null && have.Kind != Missing {
			have.Times = v.Times
			continue
		}
		*have = v
	}
}

// matchKey finds the paths that the key continues.
func (s *Scanner) matchKey() {
	s.next = s.next[:0]
	if s.long {
		return
	}
	key := string(s.text)
	for i := range s.fields.paths {
		names := s.fields.paths[i].names
		if s.matched[i] == s.depth-1 && s.depth <= len(names) && strings.EqualFold(names[s.depth-1], key) {
			s.next = append(s.next, i)
		}
	}
}

// word collects a number, true, false or null.
func (s *Scanner) word(c byte) {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c == '-', c == '+', c == '.', c == 'E':
		if len(s.text) == maxNumber {
			s.err = fmt.Errorf("a number of more than %d characters in a JSON text", maxNumber)
			return
		}
		s.text = append(s.text, c)
	default:
		if s.endWord(); s.err == nil {
			steps[s.state](s, c)
		}
	}
}

func (s *Scanner) endWord() {
	if !json.Valid(s.text) {
		s.err = fmt.Errorf("invalid value %q in a JSON text", s.text)
		return
	}
	v := Value{Kind: Number}
	switch s.text[0] {
	case 't', 'f':
		v.Kind = Bool
	case 'n':
		v.Kind = Null
	}
	if len(s.next) > 0 && v.Kind != Null {
		v.Text = string(s.text)
	}
	s.keep(v)
	s.ended()
}

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A value is one JSON value within a valid text, so reading it cannot fail. Unlike json.Unmarshal, a walk over values
// notices duplicate names and knows its position.
type value []byte

// parse checks that a text is exactly one JSON value.
func parse(text []byte) (value, error) {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("must be a JSON object, is empty")
	case !utf8.Valid(text):
		return nil, errors.New("must be JSON in UTF-8, has bytes that are not")
	case json.Valid(text):
		return text[space(text):], nil
	}
	// Valid gives no reason. The decoder does.
	err := json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, errors.New("must be JSON: at byte " + strconv.FormatInt(syntax.Offset, 10) + ": " + syntax.Error())
	}
	return nil, errors.New("must be JSON")
}

// kind names the type of a value, for messages.
func (v value) kind() string {
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// members returns the members of an object, in order. Names may be duplicate.
func (v value) members() iter.Seq2[value, value] {
	return func(yield func(value, value) bool) {
		rest := v[1:]
		for {
			rest = rest[separators(rest):]
			if rest[0] == '}' {
				return
			}
			name := rest[:length(rest)]
			rest = rest[len(name):]
			rest = rest[separators(rest):]
			member := rest[:length(rest)]
			rest = rest[len(member):]
			if !yield(name, member) {
				return
			}
		}
	}
}

// elements returns the elements of an array.
func (v value) elements() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		rest := v[1:]
		for i := 0; ; i++ {
			rest = rest[separators(rest):]
			if rest[0] == ']' {
				return
			}
			element := rest[:length(rest)]
			rest = rest[len(element):]
			if !yield(i, element) {
				return
			}
		}
	}
}

// length returns the length of the value at the start of a text.
func length(text value) int {
	switch text[0] {
	case '"':
		return stringLength(text)
	case '{', '[':
		return nestedLength(text)
	}
	return bytes.IndexFunc(text, func(r rune) bool {
		return r == ',' || r == '}' || r == ']' || isSpace(byte(r))
	})
}

func stringLength(text value) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func nestedLength(text value) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringLength(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// text returns the decoded string. It returns false if the string contains half of a surrogate pair: decoded to
// U+FFFD, two different strings would become equal.
func (v value) text() (string, bool) {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	var s string
	if json.Unmarshal(v, &s) != nil || !v.wholeSurrogates() {
		return "", false
	}
	return s, true
}

func (v value) wholeSurrogates() bool {
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		i++
		first, ok := escaped(v[i-1:])
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escaped(v[i+5:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return false
		}
		i += 10
	}
	return true
}

// escaped decodes a \u escape at the start of a text.
func escaped(text value) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(r), err == nil
}

func space(text value) int {
	i := 0
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return i
}

// separators returns the length of the commas, colons and spaces between values.
func separators(text value) int {
	i := 0
	for text[i] == ',' || text[i] == ':' || isSpace(text[i]) {
		i++
	}
	return i
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

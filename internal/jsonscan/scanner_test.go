package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// scan scans a text in parts of the given size.
func scan(s *Scanner, text []byte, size int) error {
	for part := range bytesIn(text, size) {
		_, _ = s.Write(part)
	}
	return s.Close()
}

func bytesIn(text []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			n := min(size, len(text))
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

func TestFields(t *testing.T) {
	fields := Compile([]string{"model"}, []string{"params.name"}, []string{"usage.total_tokens", "response.usage.total_tokens"})
	for _, test := range []struct {
		text string
		want [3]Value
	}{
		{`{"model":"a","params":{"name":"b"}}`, [3]Value{{String, "a", false, 1}, {String, "b", false, 1}, {}}},
		{` { "x" : [ {"model":1}, [], {} ] , "model" : true } `, [3]Value{{Bool, "true", false, 1}, {}, {}}},
		{`{"params":{"x":{"name":1}},"name":2}`, [3]Value{}},
		{`{"params":[{"name":1}]}`, [3]Value{}},
		{`{"mod\u0065l":"\ud83d\ude00\n"}`, [3]Value{{String, "😀\n", false, 1}, {}, {}}},
		{`{"model":"cheap","Model":"dear"}`, [3]Value{{String, "dear", false, 2}, {}, {}}},
		{`{"params":{"name":"a"},"params":{"name":"b"}}`, [3]Value{{}, {String, "b", false, 2}, {}}},
		{`{"model":{"id":1},"params":{"name":[1]}}`, [3]Value{{Kind: Composite, Times: 1}, {Kind: Composite, Times: 1}, {}}},
		{`{"usage":{"total_tokens":12},"response":{"usage":{"total_tokens":null}}}`, [3]Value{{}, {}, {Number, "12", false, 2}}},
		{`{"response":{"usage":{"total_tokens":-1.5e3}}}`, [3]Value{{}, {}, {Number, "-1.5e3", false, 1}}},
		{`{"model":"` + strings.Repeat("x", 40) + `"}`, [3]Value{{String, strings.Repeat("x", 32), true, 1}, {}, {}}},
		{`[{"model":"a"}]`, [3]Value{}},
		{`"model"`, [3]Value{}},
		{`17`, [3]Value{}},
	} {
		for _, size := range []int{1, 2, 7, len(test.text)} {
			s := New(fields, 32, false)
			if err := scan(s, []byte(test.text), size); err != nil {
				t.Errorf("%s in parts of %d: %v", test.text, size, err)
			}
			for i, want := range test.want {
				if got := s.Value(i); got != want {
					t.Errorf("%s in parts of %d: field %d is %+v, want %+v", test.text, size, i, got, want)
				}
			}
		}
	}
}

func TestInvalidTexts(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for _, text := range []string{
		"", " ", "{", `{"a"`, `{"a":}`, `{"a":1,}`, `[1,]`, `{a:1}`, `{'a':1}`, `{"a":1}}`, `{"a":1} {"b":2}`, `{"a":nul}`, `{"a":01}`,
		`{"a":NaN}`, "\ufeff{}", `{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":1]`, `[1}`, `model=a`, deep, `{"a":` + strings.Repeat("1", 65) + `}`,
	} {
		for _, size := range []int{1, len(text) + 1} {
			if err := scan(New(Compile([]string{"a"}), 32, false), []byte(text), size); err == nil {
				t.Errorf("%.60q passes as JSON", text)
			}
		}
	}
}

// A stream of texts, as in NDJSON: the last value counts.
func TestStreamOfTexts(t *testing.T) {
	s := New(Compile([]string{"n"}), 32, true)
	if err := scan(s, []byte("{\"n\":1}\n{\"n\":2}\n{\"n\":null}\n{}\n"), 3); err != nil {
		t.Error(err)
	}
	if got := s.Value(0).Text; got != "2" {
		t.Errorf("n is %q", got)
	}
}

func TestRestartForgetsTheText(t *testing.T) {
	s := New(Compile([]string{"a.n"}), 32, false)
	_, _ = s.Write([]byte(`{"a":{"n":1},"b":[{"x`))
	s.Restart()
	if err := scan(s, []byte(`{"n":5,"a":{"n":2}}`), 4); err != nil {
		t.Error(err)
	}
	if got := s.Value(0).Text; got != "2" {
		t.Errorf("n is %q", got)
	}
}

// FuzzScanner compares the scanner with encoding/json.
func FuzzScanner(f *testing.F) {
	for _, text := range []string{
		`{"model":"a","params":{"name":"b","x":[1,2,{"name":"\ud83d\ude00"}]}}`, `{"Model":null,"model":1e5}`, `[true,false,null]`,
		`{"params":{"name":{}},"params":{"NAME":[]}}`, "\"\\ud800\\ud800x\"", `{"model":"\ud800"}`, `{"model":1}{"model":2}`,
	} {
		f.Add([]byte(text), uint8(3))
	}
	fields := Compile([]string{"model"}, []string{"params.name"})
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		s := New(fields, 1<<20, false)
		err := scan(s, text, int(size)+1)
		if err != nil && json.Valid(text) && !isBeyondBounds(text) {
			t.Fatalf("%q: %v, and it is JSON", text, err)
		}
		if err == nil && !json.Valid(text) {
			t.Fatalf("%q passes as JSON", text)
		}
		if err != nil || !utf8.Valid(text) {
			return
		}
		for i, path := range [][]string{{"model"}, {"params", "name"}} {
			want := naive(json.NewDecoder(bytes.NewReader(text)), path)
			if got := s.Value(i); got != want {
				t.Fatalf("%q: %v is %+v, want %+v", text, path, got, want)
			}
		}
	})
}

var longNumber = regexp.MustCompile(fmt.Sprintf("[-+.eE0-9]{%d}", maxNumber+1))

// isBeyondBounds reports whether a valid text may exceed the scanner's bounds.
func isBeyondBounds(text []byte) bool {
	return bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > MaxDepth || longNumber.Match(text)
}

// naive finds a field with a decoder of the standard library.
func naive(d *json.Decoder, path []string) (found Value) {
	d.UseNumber()
	var walk func(at int) // at: how many names the value is under, or -1
	keep := func(v Value) {
		v.Times = found.Times + 1
		if v.Kind == Null && found.Kind != Missing {
			v = Value{found.Kind, found.Text, false, v.Times}
		}
		found = v
	}
	scalar := func(token json.Token) Value {
		switch v := token.(type) {
		case string:
			return Value{Kind: String, Text: v}
		case json.Number:
			return Value{Kind: Number, Text: v.String()}
		case bool:
			return Value{Kind: Bool, Text: fmt.Sprint(v)}
		case json.Delim:
			return Value{Kind: Composite}
		}
		return Value{Kind: Null}
	}
	walk = func(at int) {
		token, err := d.Token()
		if err != nil {
			return
		}
		if at == len(path) {
			keep(scalar(token))
		}
		switch token {
		case json.Delim('['):
			for d.More() {
				walk(-1)
			}
			_, _ = d.Token()
		case json.Delim('{'):
			for d.More() {
				key, _ := d.Token()
				below := -1
				if name, _ := key.(string); at >= 0 && at < len(path) && strings.EqualFold(name, path[at]) {
					below = at + 1
				}
				walk(below)
			}
			_, _ = d.Token()
		}
	}
	walk(0)
	return found
}

// What nobody asks for is skipped at memory speed: see docs/adr/0047.
func BenchmarkSkip(b *testing.B) {
	const size = 1 << 20
	fill := func(part string) string { return strings.TrimSuffix(strings.Repeat(part, size/len(part)), ",") }
	for _, text := range []struct{ name, text string }{
		{"a long string", `{"model":"m","text":"` + fill("x") + `"}`},
		{"prose", `{"model":"m","messages":[` + fill(`{"role":"user","content":"Say in one line what a token bucket is, and then \"stop\"."},`) + `]}`},
		{"numbers", `{"model":"m","input":[` + fill(`0.12345,`) + `]}`},
		{"brackets", `{"model":"m","input":[` + fill(`[[]],`) + `]}`},
		{"objects", `{"model":"m","input":[` + fill(`{"a":1},`) + `]}`},
		{"keys", `{"model":"m",` + fill(`"a":1,`) + `}`},
		{"escapes", `{"model":"m","text":"` + fill(`\n\"`) + `"}`},
		{"spaces", `{"model":"m"` + fill(" ") + `}`},
	} {
		b.Run(text.name, func(b *testing.B) {
			fields := Compile([]string{"model"}, []string{"params.name"})
			b.SetBytes(int64(len(text.text)))
			for b.Loop() {
				s := New(fields, 8<<10, false)
				if _, err := s.Write([]byte(text.text)); err != nil || s.Close() != nil || s.Value(0).Text != "m" {
					b.Fatal(err, s.Value(0))
				}
			}
		})
	}
}

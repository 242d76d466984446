package strictdoc

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JSON is read as encoding/json reads it.
func TestJSON(t *testing.T) {
	const text = "{\n\t\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\ud83d\\ude00\\/\\n\"],\r\n\t\"b\":{\"c\":{}, \"d\":[]}}"
	root, err := Read(t.Context(), text, whole)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, value(root)); diff != "" {
		t.Error(diff)
	}
	if at := root.Step("b").Step("d").At; at != (Position{3, 19}) {
		t.Errorf("d is at %v", at)
	}
}

func value(n *Node) any {
	switch n.Kind {
	case List:
		items := []any{}
		for i := range n.Items {
			items = append(items, value(&n.Items[i]))
		}
		return items
	case Mapping:
		fields := map[string]any{}
		for i := range n.Items {
			fields[n.Items[i].Key] = value(&n.Items[i])
		}
		return fields
	case Null:
		return nil
	}
	var plain any
	if n.Style == Plain && json.Unmarshal([]byte(n.Text), &plain) == nil {
		return plain
	}
	return n.Text
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x b":                "1:4: anchors are not supported, write \"&…\" in quotes if it is a value",
		"a: *x":                  "1:4: aliases are not supported, write \"*…\" in quotes if it is a pattern",
		"a: !!str b":             "1:4: tags are not supported, write \"!…\" in quotes if it is a value or an expression",
		"a: {<<: {b: c}}":        "1:5: merge keys are not supported, write the fields out",
		"%YAML 1.2\n---\na: b":   "1:1: directives are not supported",
		"? a\n: b":               "1:1: explicit keys are not supported, write key: value",
		"a: b\n---\nc: d":        "2:1: a second document begins here, write everything in one",
		"a: b\n...":              "2:1: document end markers are not supported, leave ... out",
		"a: @b":                  "1:4: not YAML: '@' cannot begin a value or a key",
		"a: [b, [c]":             "1:4: not YAML: the bracket [ is not closed",
		"a: {b: c":               "1:4: not YAML: the brace { is not closed",
		"a: [b c: d]\nb\nc: d":   "2:1: not YAML: could not find expected ':'",
		"a: \"b\\q\"":            "1:6: not YAML: unknown escape in a text in double quotes",
		"a: \"\\ud83d\"":         "1:5: not YAML: invalid escape",
		"a: 'b":                  "1:4: not YAML: the quote ' is not closed",
		"a:\n\t- b":              "2:1: not YAML: tabs are not allowed for indentation; use spaces",
		"a:\n  b: c\n d: e":      "3:2: not YAML: value is not allowed in this context",
		"[a]: b":                 "1:1: not YAML: a key must be a single value on one line",
		"a: |x\n b":              "1:5: not YAML: the text of a block begins on the next line",
		"é: [ü, é: \"\xff\"]":    "1:12: the text is not UTF-8",
		strings.Repeat("- ", 40): "1:67: nested more than 32 deep",
	} {
		if root, err := Read(t.Context(), text, whole); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", text, root, err, want)
		}
	}
}

func TestAnchors(t *testing.T) {
	o := whole
	o.Anchors = true
	root, err := Read(t.Context(), "a: &x\n  b: !!str c\nd: [*x, &y e, *y]\nf: {<<: *x}\n...\n", o)
	if err != nil {
		t.Fatal(err)
	}
	b := map[string]any{"b": "c"}
	want := map[string]any{"a": b, "d": []any{b, "e", "e"}, "f": map[string]any{"<<": b}}
	if diff := cmp.Diff(want, value(root)); diff != "" {
		t.Error(diff)
	}
}

// A hostile text is one whose few bytes are expensive. Each is as long as requested.
var hostile = map[string]func(bytes int) string{
	"items":           func(n int) string { return "rules: [" + strings.Repeat("x,", n/2) + "]" },
	"lists":           func(n int) string { return "[" + strings.Repeat("[],", n/3) + "]" },
	"lists of lists":  func(n int) string { return strings.Repeat("- ["+strings.Repeat("x,", 50_000)+"]\n", n/100_005) },
	"pairs":           func(n int) string { return "[" + strings.Repeat("a: b,", n/5) + "]" },
	"mappings":        func(n int) string { return strings.Repeat("- {a,b,c,d}\n", n/12) },
	"dashes":          func(n int) string { return strings.Repeat("-\n", n/2) },
	"open brackets":   func(n int) string { return strings.Repeat("[", n) },
	"lines":           func(n int) string { return "a: b" + strings.Repeat("\n", n) },
	"folded lines":    func(n int) string { return "a: " + strings.Repeat("b\n ", n/3) },
	"comments":        func(n int) string { return strings.Repeat("#\n", n/2) + "a: b" },
	"an open quote":   func(n int) string { return "a: \"" + strings.Repeat("\\n", n/2) },
	"escapes":         func(n int) string { return "a: \"" + strings.Repeat("\\n", n/2) + "\"" },
	"quotes":          func(n int) string { return "[" + strings.Repeat("'',", n/3) + "]" },
	"doubled quotes":  func(n int) string { return "a: '" + strings.Repeat("''", n/2) + "'" },
	"blank lines":     func(n int) string { return strings.Repeat("- a\n\n\n\n\n\n\n\n", n/11) },
	"block scalars":   func(n int) string { return strings.Repeat("- |\n a\n", n/7) },
	"spaces":          func(n int) string { return "a:" + strings.Repeat(" ", n) + "b" },
	"aliases":         func(n int) string { return "- &a [x,x,x,x,x,x,x,x]\n" + strings.Repeat("- *a\n", n/5) },
	"anchors":         func(n int) string { return strings.Repeat("- &a b\n", n/7) },
	"fields":          func(n int) string { return strings.Repeat("a: 1\n", n/5) },
	"one long scalar": func(n int) string { return "a: " + strings.Repeat("é", n/2) },
}

// Allocations are bounded by the text: 200 bytes for each byte, and for twice the text at most a little more than
// twice as much. Work that is not linear would show as allocations or as a test that does not end.
func TestMemoryPerByte(t *testing.T) {
	const perByte = 200
	o := Options{MaxBytes: 4 << 20, MaxNodes: 4_000_000, MaxDepth: 32, Anchors: true}
	for name, make := range hostile {
		small, large := make(512<<10), make(1<<20)
		once, twice := allocated(t, small, o), allocated(t, large, o)
		t.Logf("%-16s %6.1f bytes for each byte", name, float64(twice)/float64(len(large)))
		if twice > perByte*uint64(len(large)) {
			t.Errorf("%s: %d bytes of text, %d allocated", name, len(large), twice)
		}
		if twice > 3*once+1<<20 {
			t.Errorf("%s: %d allocated for %d bytes, %d for %d", name, once, len(small), twice, len(large))
		}
	}
}

func allocated(t *testing.T, text string, o Options) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	root, err := Read(t.Context(), text, o)
	runtime.ReadMemStats(&after)
	if (root == nil) == (err == nil) {
		t.Fatal(root, err)
	}
	return after.TotalAlloc - before.TotalAlloc
}

// A list that is too long is rejected as soon as it is, not when it ends.
func TestBoundsAreCheckedWhileReading(t *testing.T) {
	text := "[" + strings.Repeat("x,", 2_000_000) + "]"
	if got := allocated(t, text, Options{MaxBytes: len(text), MaxNodes: 1000, MaxDepth: 32}); got > 1<<20 {
		t.Errorf("%d bytes were allocated for 1000 values", got)
	}
	for want, o := range map[string]Options{
		"1:2000: the text has more than 1000 values":          {MaxBytes: len(text), MaxNodes: 1000, MaxDepth: 32},
		"1:400002: a list has more than 200000 items":         {MaxBytes: len(text), MaxNodes: len(text), MaxDepth: 32},
		"1:1: the text has 4000002 bytes, at most 4000001":    {MaxBytes: len(text) - 1, MaxNodes: len(text), MaxDepth: 32},
		"1:2: nested more than 0 deep":                        {MaxBytes: len(text), MaxNodes: len(text)},
		"1001:1: a mapping has more than 1000 fields\x00a: 1": {},
	} {
		text := text
		if o == (Options{}) {
			want, text, _ = strings.Cut(want, "\x00")
			text, o = strings.Repeat(text+"\n", 2000), whole
		}
		if _, err := Read(t.Context(), text, o); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// endingContext is a context that ends after a number of checks.
type endingContext struct {
	context.Context
	looks int
}

func (l *endingContext) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}

func (l *endingContext) Value(any) any { return nil }

// Reading stops when the context ends.
func TestContext(t *testing.T) {
	ctx := &endingContext{t.Context(), 3}
	_, err := Read(ctx, "["+strings.Repeat("x,", 100_000)+"]", whole)
	if !errors.Is(err, context.Canceled) || ctx.looks < -3 {
		t.Errorf("got %v, after %d more looks", err, -ctx.looks)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	l := NewLines("first\r\n\n" + long + "x" + long + "\nlast")
	type shown struct {
		at   Position
		line string
		from int32
	}
	for at, want := range map[Position]shown{
		{1, 3}:      {Position{1, 3}, "first", 1},
		{1, 50}:     {Position{1, 6}, "first", 1},
		{2, 1}:      {Position{2, 1}, "", 1},
		{3, 10_001}: {Position{3, 10_001}, strings.Repeat("é", 60) + "x" + strings.Repeat("é", 119), 10_001 - 60},
		{4, 5}:      {Position{4, 5}, "last", 1},
		{9, 9}:      {Position{9, 5}, "last", 1},
	} {
		var got shown
		if got.at, got.line, got.from = l.Show(at); got != want {
			t.Errorf("%v: got %v, want %v", at, got, want)
		}
	}
	if lines := []string{l.Line(0), l.Line(1), l.Line(2), l.Line(3), l.Line(4), l.Line(5)}; !reflect.DeepEqual(lines, []string{"", "first", "", long + "x" + long, "last", ""}) {
		t.Errorf("%.100q", lines)
	}
}

package strictdoc

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

var whole = Options{MaxBytes: 1 << 20, MaxNodes: 1 << 20, MaxDepth: 32}

// oracle reads a text with another parser, into nodes without positions. ok is false for texts that this package
// rejects.
func oracle(text string) (_ *Node, ok bool, err error) {
	if !strings.HasSuffix(text, "\n") {
		text += "\n" // what ends without one is read as if it had it
	}
	d := yaml.NewDecoder(strings.NewReader(text))
	var doc, second yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, true, nil
	} else if err != nil {
		return nil, true, err
	}
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	n := &Node{}
	ok = convert(doc.Content[0], n)
	return n, ok, nil
}

func convert(from *yaml.Node, to *Node) bool {
	if from.Anchor != "" || from.Style&yaml.TaggedStyle != 0 {
		return false
	}
	switch from.Kind {
	case yaml.ScalarNode:
		to.Kind, to.Text = Scalar, from.Value
		switch {
		case from.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
			to.Style = Quoted
		case from.Style&yaml.LiteralStyle != 0:
			to.Style = Literal
		case from.Style&yaml.FoldedStyle != 0:
			to.Style = Folded
		case from.Tag == "!!null":
			to.Kind, to.Text = Null, ""
		}
	case yaml.SequenceNode:
		to.Kind = List
		to.Items = make([]Node, len(from.Content))
		for i := range from.Content {
			if !convert(from.Content[i], &to.Items[i]) {
				return false
			}
		}
	case yaml.MappingNode:
		to.Kind = Mapping
		to.Items = make([]Node, len(from.Content)/2)
		for i := range to.Items {
			key, item := from.Content[2*i], &to.Items[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" || !convert(from.Content[2*i+1], item) {
				return false
			}
			item.Key = key.Value
			if key.Style != 0 {
				item.KeyStyle = Quoted
			}
			item.KeyAt = Position{int32(key.Line), int32(key.Column)}
		}
	default:
		return false
	}
	to.At = Position{int32(from.Line), int32(from.Column)}
	return true
}

// FuzzRead checks that another parser reads every accepted text in the same way.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) { compare(t, text) })
}

var pieces = []string{
	"a", "b", "é", "null", "~", "1", ": ", ":", "- ", "-", "\n", "\n", "\n  ", "\n    ", "\n- ", "\n  - ", " ", "  ", "[", "]", "{", "}", ", ", ",",
	"\"", "'", "''", "\\n", "\\", "#", " # c\n", "|", ">", "|-\n", ">+\n  ", "a: ", "b: ", "\n  a: ", "\nb: ", "\"k\":", "\\u00e9", "---\n", "\t", "? ",
}

func TestRandomTextsAreReadAsAnotherParserReadsThem(t *testing.T) {
	n := 50_000
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		n = 5_000_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range n {
		var b strings.Builder
		for range 1 + r.IntN(14) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		if compare(t, b.String()) {
			accepted++
		}
	}
	if accepted < n/10 {
		t.Errorf("%d of %d were read", accepted, n)
	}
}

// The other parser follows YAML 1.1 in a few places, and this one YAML 1.2. The other one rejects tabs in empty
// lines and plain texts in brackets that begin with a colon, and reads "a:}" and "a? b" differently. It knows
// further characters that end a line.
var differs = regexp.MustCompile(`[\t\x{85}\x{2028}\x{2029}\x{feff}]|:[,\[\]{}:]|[\s,\[{]:\S|\?`)

// compare reports whether a text was read.
func compare(t *testing.T, text string) bool {
	t.Helper()
	got, err := Read(t.Context(), text, whole)
	if err != nil || differs.MatchString(text) {
		return err == nil
	}
	want, ok, err := oracle(text)
	if err != nil || !ok {
		t.Errorf("%q is read, but another parser says %v", text, err)
		return true
	}
	withoutNulls(got)
	withoutNulls(want)
	if isEmpty := got == nil && (want == nil || want.Kind == Null); !isEmpty && !reflect.DeepEqual(got, want) {
		t.Errorf("%q (-other parser +here):\n%s", text, cmp.Diff(want, got))
	}
	return true
}

// withoutNulls drops the positions of nulls: here, an empty value is shown at its key or dash.
func withoutNulls(n *Node) {
	if n == nil {
		return
	}
	if n.Kind == Null {
		n.At = Position{}
	}
	for i := range n.Items {
		withoutNulls(&n.Items[i])
	}
}

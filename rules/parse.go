package rules

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// Bounds of a document. A hundred thousand typical rules have about 1.6 million values. A million fit into several
// files.
const (
	MaxDocument      = 128 << 20  // bytes, of all files together
	maxNodes         = 4_000_000  // values of a file: scalars, lists and mappings
	maxNodesTogether = 20_000_000 // of all files together
	maxDepth         = 32
)

// Parse reads a document written in YAML or JSON. name is the file name that problems show. An error is of type
// [Problems] and contains up to a thousand errors. The Document is returned even then, so that [Compile] can
// report the remaining errors along with them.
func Parse(name string, text []byte) (*Document, error) {
	doc := parse(context.Background(), name, string(text))
	if doc.found.mistakes > 0 {
		return doc, doc.found.sorted(Mistake)
	}
	return doc, nil
}

func parse(ctx context.Context, name, text string) *Document {
	doc := &Document{}
	doc.found = readInto(ctx, name, text, doc, complain("the document is empty").suggest("write rules: [] for no rules"))
	return doc
}

// readInto fills a struct from a text, and complains about an empty one.
func readInto(ctx context.Context, name, text string, into any, empty *valueProblem) *problemCollector {
	f := &problemCollector{ctx: ctx}
	if f.readTree(name, text) {
		r := &reader{problemCollector: f}
		r.read(f.source.root, reflect.ValueOf(into).Elem())
	} else if f.mistakes == 0 && f.stopped == nil {
		f.add(Mistake, nil, position{Line: 1, Column: 1}, empty)
	}
	return f
}

// readTree parses a text into nodes and reports whether there are any. A text without nodes and without an error
// is empty.
func (f *problemCollector) readTree(name, text string) bool {
	text = strings.TrimPrefix(text, "\ufeff")
	f.source = &source{name: name, text: text}
	root, err := strictdoc.Read(f.ctx, text, strictdoc.Options{MaxBytes: MaxDocument, MaxNodes: maxNodes, MaxDepth: maxDepth})
	if e := (*strictdoc.Error)(nil); errors.As(err, &e) {
		f.add(Mistake, nil, e.At, &valueProblem{message: e.Message, hint: e.Hint})
	} else if err != nil {
		f.stopped = err
	}
	f.source.root = root
	return root != nil
}

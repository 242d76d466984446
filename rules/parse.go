package rules

import (
	"reflect"
	"strings"
	"unicode/utf8"
)

// MaxDocument is how many bytes a document may have.
const MaxDocument = 64 << 20

// Parse reads a document written in YAML or JSON. name is that of the file, for the places of
// problems. An error is of type [Problems] and has every mistake that reading shows; the Document
// is there nevertheless, so that [Compile] can tell the rest along with them.
func Parse(name string, text []byte) (*Document, error) {
	doc := parse(name, string(text))
	if doc.found.mistakes > 0 {
		return doc, doc.found.sorted(Mistake)
	}
	return doc, nil
}

func parse(name, text string) *Document {
	f := &found{}
	doc := &Document{found: f}
	if f.readTree(name, text) {
		r := &reader{found: f}
		r.read(f.source.root, reflect.ValueOf(doc).Elem())
	} else if f.mistakes == 0 {
		f.add(Mistake, nil, spot{1, 1}, complain("the document is empty").but("write rules: [] for no rules"))
	}
	return doc
}

// readTree makes nodes of a text, and tells whether there are any. Without a mistake it is empty.
func (f *found) readTree(name, text string) bool {
	text = strings.TrimPrefix(text, "\ufeff")
	f.source = &source{name: name, text: text}
	switch {
	case len(text) > MaxDocument:
		f.source.text = ""
		f.add(Mistake, nil, spot{1, 1}, complain("the document has %d bytes, at most %d", len(text), MaxDocument))
	case !utf8.ValidString(text):
		f.add(Mistake, nil, notText(text), complain("the document is not UTF-8 text"))
	case looksLikeJSON(text):
		f.source.root = f.readJSON()
	default:
		f.source.root = f.readYAML()
	}
	if f.mistakes > 0 {
		f.source.root = nil // half of a text is none
	}
	return f.source.root != nil
}

// notText returns the spot of the first byte that is not UTF-8.
func notText(text string) spot {
	at := spot{1, 1}
	for _, r := range text {
		switch r {
		case utf8.RuneError:
			return at
		case '\n':
			at = spot{at.line + 1, 1}
		default:
			at.column++
		}
	}
	return at
}

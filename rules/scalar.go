package rules

import (
	"reflect"
	"strings"
	"time"
	"unicode"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// maxText bounds texts that have no other bound.
const maxText = 4096

// scalar returns the text of a single value. Numbers, true and false are texts too.
func (r *reader) scalar(n *node) (string, bool) {
	if n.Kind != strictdoc.Scalar {
		r.fail(n, complain("%s must be a single value, not %v", r.partName(), n.Kind))
		return "", false
	}
	text := n.Text
	if n.Style == strictdoc.Literal || n.Style == strictdoc.Folded {
		text = strings.TrimRight(text, "\n")
	}
	if len(text) > maxText {
		r.fail(n, complain("%s has %d bytes, at most %d", r.partName(), len(text), maxText))
		return "", false
	}
	if i := strings.IndexFunc(text, func(c rune) bool { return unicode.IsControl(c) && c != '\n' && c != '\t' }); i >= 0 {
		r.fail(n, complain("%s has a control character", r.partName()).in(runes(text[:i])))
		return "", false
	}
	return text, true
}

func (r *reader) readNumber(n *node, v reflect.Value) {
	text, ok := r.scalar(n)
	if !ok {
		return
	}
	if n.Style != strictdoc.Plain {
		r.fail(n, complain("%s must be a number, not a text", r.partName()).suggest("write it without quotes"))
		return
	}
	count, c := parseCount(text)
	if c != nil {
		c.message = r.partName() + ": " + c.message
		r.fail(n, c)
		return
	}
	v.SetInt(count)
}

func (r *reader) readBool(n *node, v reflect.Value) {
	text, ok := r.scalar(n)
	if !ok {
		return
	}
	if n.Style != strictdoc.Plain || text != "true" && text != "false" {
		r.fail(n, complain("%s must be true or false, not %.40q", r.partName(), text))
		return
	}
	v.SetBool(text == "true")
}

func (r *reader) readTime(n *node, to *time.Time) {
	text, ok := r.scalar(n)
	if !ok {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.IsZero() {
		r.fail(n, complain("%s must be a date with time and zone, not %.40q", r.partName(), text).suggest("as in 2027-01-01T00:00:00Z"))
		return
	}
	*to = at.UTC()
}

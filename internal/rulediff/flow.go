package rulediff

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
)

// flow formats a value on one line for people.
func flow(value json.RawMessage) string {
	text := string(value)
	n, err := strictdoc.Read(context.Background(), text, strictdoc.Options{MaxBytes: len(text), MaxNodes: len(text), MaxDepth: 64})
	if err != nil || n == nil {
		return text
	}
	var b strings.Builder
	write(&b, n)
	return b.String()
}

func write(b *strings.Builder, n *strictdoc.Node) {
	marks := "[]"
	switch n.Kind {
	case strictdoc.Null:
		b.WriteString("null")
		return
	case strictdoc.Scalar:
		b.WriteString(scalar(n.Text, n.Style))
		return
	case strictdoc.Mapping:
		marks = "{}"
	}
	b.WriteByte(marks[0])
	for i := range n.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		if n.Kind == strictdoc.Mapping {
			b.WriteString(scalar(n.Items[i].Key, strictdoc.Quoted) + ": ")
		}
		write(b, &n.Items[i])
	}
	b.WriteByte(marks[1])
}

var word = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9._/?%-]*$`)

// scalar omits quotes that a text does not need.
func scalar(text string, style strictdoc.Style) string {
	if style == strictdoc.Plain {
		return text
	}
	_, notNumber := strconv.ParseFloat(text, 64)
	if notNumber == nil || !word.MatchString(text) || slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return strconv.Quote(text)
	}
	return text
}

package rules

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// looksLikeJSON tells JSON from YAML. All JSON is YAML, but its own parser is many times quicker,
// and indents by tabs as people do.
func looksLikeJSON(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

// readJSON returns the root of a text that is valid JSON.
func (f *found) readJSON() *node {
	d := json.NewDecoder(strings.NewReader(f.source.text))
	d.UseNumber()
	r := &jsonReader{found: f, decoder: d, text: f.source.text, at: spot{1, 1}}
	return r.value(0)
}

type jsonReader struct {
	*found
	decoder *json.Decoder
	text    string
	offset  int // how far the text was looked at, which is at
	at      spot
}

// next returns a token and where it begins.
func (r *jsonReader) next() (json.Token, spot) {
	end := int(r.decoder.InputOffset())
	for end < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[end]) >= 0 {
		end++
	}
	for r.offset < end {
		c, size := utf8.DecodeRuneInString(r.text[r.offset:])
		r.offset += size
		if r.at.column++; c == '\n' {
			r.at = spot{r.at.line + 1, 1}
		}
	}
	t, _ := r.decoder.Token() // the text is valid
	return t, r.at
}

func (r *jsonReader) value(depth int) *node {
	t, at := r.next()
	n := &node{at: at}
	if depth > maxDepth {
		r.add(Mistake, nil, at, complain("nested more than %d deep", maxDepth))
		return n
	}
	switch t := t.(type) {
	case json.Delim:
		r.items(n, t, depth)
	case string:
		n.kind, n.style, n.text = scalarNode, quoted, t
	case json.Number:
		n.kind, n.text = scalarNode, t.String()
	case bool:
		n.kind, n.text = scalarNode, "false"
		if t {
			n.text = "true"
		}
	}
	return n
}

func (r *jsonReader) items(n *node, open json.Delim, depth int) {
	n.kind = listNode
	if open == '{' {
		n.kind = mappingNode
	}
	for r.decoder.More() && r.mistakes == 0 {
		var key string
		var keyAt spot
		if n.kind == mappingNode {
			t, at := r.next()
			key, _ = t.(string)
			keyAt = at
		}
		item := r.value(depth + 1)
		item.key, item.keyAt = key, keyAt
		n.items = append(n.items, *item)
	}
	if r.mistakes == 0 {
		r.next() // the closing bracket
	}
}

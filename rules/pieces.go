package rules

import "strings"

// The parser's tree takes some seventy times the memory of the text. A long list of rules is
// therefore read piece by piece, each tree making room for the next. This is only quicker: where a
// text is not plainly such a list, or a piece of it cannot be read, the whole is parsed instead,
// and that is what tells of mistakes.

// pieceSize is about how long a piece is, and how long a text must be to be read in pieces.
const pieceSize = 256 << 10

// pieces are a document cut at the items of its rules.
type pieces struct {
	head  piece // to the line that says rules:
	items []piece
	tail  piece // what follows the rules
}

type piece struct {
	text string
	line int // how many are before it
}

// inPieces reads a text piece by piece; nil means that the whole is to be parsed.
func (s *source) inPieces(size int) *node {
	if len(s.text) <= size {
		return nil
	}
	cut := cutRules(s.text, size)
	if cut == nil {
		return nil
	}
	root := cut.head.read(mappingNode)
	if root == nil {
		return nil
	}
	rules := &root.items[len(root.items)-1]
	if rules.key != "rules" || rules.kind != nullNode {
		return nil
	}
	rules.kind = listNode
	for i, p := range cut.items {
		list := p.read(listNode)
		if list == nil {
			return nil
		}
		if i == 0 {
			rules.at = list.at
		}
		rules.items = append(rules.items, list.items...)
	}
	if strings.TrimSpace(cut.tail.text) == "" {
		return root
	}
	tail := cut.tail.read(mappingNode)
	if tail == nil {
		return nil
	}
	root.items = append(root.items, tail.items...)
	return root
}

// read returns what a piece consists of, nil if it is not of that kind or cannot be read.
func (p piece) read(kind nodeKind) *node {
	f := &found{source: &source{text: p.text}}
	n := f.parseYAML()
	if f.mistakes > 0 || n == nil || n.kind != kind {
		return nil
	}
	n.shift(int32(p.line))
	return n
}

// shift moves a node down by so many lines. One without a key stays without a place of it.
func (n *node) shift(lines int32) {
	if n == nil {
		return
	}
	n.at.line += lines
	if n.keyAt.line > 0 {
		n.keyAt.line += lines
	}
	for i := range n.items {
		n.items[i].shift(lines)
	}
}

// cutRules cuts a text whose rules are a block list; nil means that they are not.
func cutRules(text string, size int) *pieces {
	var cut *pieces
	indent := -1        // of the items' dashes
	start, from := 0, 0 // of the piece, and the line it begins with
	offset, number := 0, 0
	for line := range strings.Lines(text) {
		content := strings.TrimLeft(line, " ")
		column := len(line) - len(content)
		content = strings.TrimRight(content, "\r\n \t")
		blank := content == "" || content[0] == '#'
		switch {
		case strings.HasPrefix(content, "\t") || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "..."):
			return nil
		case cut == nil:
			if column == 0 && isRulesKey(content) {
				cut = &pieces{head: piece{text: text[:offset+len(line)]}}
				start, from = offset+len(line), number+1
			}
		case cut.tail.text != "" || blank || indent >= 0 && column > indent:
		case (indent < 0 || column == indent) && isDash(content):
			if first := indent < 0; !first && offset-start >= size {
				cut.items = append(cut.items, piece{text[start:offset], from})
				start, from = offset, number
			}
			indent = column
		case indent < 0:
			return nil
		default: // another field of the document
			cut.items = append(cut.items, piece{text[start:offset], from})
			cut.tail = piece{text[offset:], number}
		}
		offset += len(line)
		number++
	}
	if indent < 0 {
		return nil
	}
	if cut.tail.text == "" {
		cut.items = append(cut.items, piece{text[start:], from})
	}
	return cut
}

func isRulesKey(content string) bool {
	rest, ok := strings.CutPrefix(content, "rules:")
	rest = strings.TrimLeft(rest, " ")
	return ok && (rest == "" || rest[0] == '#')
}

func isDash(content string) bool { return content == "-" || strings.HasPrefix(content, "- ") }

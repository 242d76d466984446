package strictdoc

// An anchoredNode is one that aliases refer to.
type anchoredNode struct {
	node   Node
	count  int // of the nodes it consists of
	height int // of the tree below it
}

// A property is an anchor or a tag that was read before its node, and the parser's position at that time.
type property struct {
	mark           byte
	name           string
	count, deepest int
}

// property reads an anchor or a tag. Its node follows.
func (p *parser) property(depth int) property {
	if !p.options.Anchors {
		p.refuse(p.peek())
		return property{}
	}
	mark, at := p.peek(), p.position()
	name := p.name()
	if mark == '&' && name == "" {
		p.syntax(at, "an anchor needs a name")
	}
	p.skip()
	before := property{mark, name, p.count, p.deepest}
	p.deepest = depth
	return before
}

// bind attaches to a node the anchor that was read before it.
func (p *parser) bind(before property, n *Node, depth int) {
	if before.mark == '&' && p.err == nil {
		if p.anchors == nil {
			p.anchors = map[string]anchoredNode{}
		}
		p.anchors[before.name] = anchoredNode{*n, p.count - before.count, p.deepest - depth}
	}
	p.deepest = max(before.deepest, p.deepest)
}

// alias reads an alias as the node that it refers to.
func (p *parser) alias(n *Node, depth int) {
	if !p.options.Anchors {
		p.refuse('*')
		return
	}
	at := n.At
	name := p.name()
	from, ok := p.anchors[name]
	if !ok {
		p.fail(at, "the anchor %.64s is not there", name)
		return
	}
	n.Kind, n.Style, n.At, n.Text, n.Items = from.node.Kind, from.node.Style, from.node.At, from.node.Text, from.node.Items
	p.count += from.count
	p.enter(depth + from.height)
}

// name reads an indicator and the name after it.
func (p *parser) name() string {
	end := p.pos + 1
	for end < len(p.text) && !isBlank(p.text, end) && !isFlowMark(p.text[end]) {
		end++
	}
	name := p.text[p.pos+1 : end]
	p.advance(end - p.pos)
	return name
}

// refuse fails at an indicator that cannot begin a value or a key.
func (p *parser) refuse(mark byte) {
	at := p.position()
	switch mark {
	case '&':
		p.fail(at, "anchors are not supported").Hint = `write "&…" in quotes if it is a value`
	case '*':
		p.fail(at, "aliases are not supported").Hint = `write "*…" in quotes if it is a pattern`
	case '!':
		p.fail(at, "tags are not supported").Hint = `write "!…" in quotes if it is a value or an expression`
	default:
		p.syntax(at, "%q cannot begin a value or a key", mark)
	}
}

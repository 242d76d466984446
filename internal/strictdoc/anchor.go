package strictdoc

// An anchored node is one that aliases stand for.
type anchored struct {
	node   Node
	count  int // of the nodes it consists of
	height int // of the tree below it
}

// properties reads anchors and tags, and the node they are of.
func (p *parser) properties(n *Node, depth int, read func()) {
	at, mark := n.At, p.peek()
	if !p.options.Anchors {
		p.refuse(mark)
		return
	}
	name := p.name()
	p.skip()
	count, deepest := p.count, p.deepest
	p.deepest = depth
	read()
	if mark == '&' && p.err == nil {
		if name == "" {
			p.syntax(at, "an anchor needs a name")
			return
		}
		if p.anchors == nil {
			p.anchors = map[string]anchored{}
		}
		p.anchors[name] = anchored{*n, p.count - count, p.deepest - depth}
	}
	p.deepest = max(deepest, p.deepest)
}

// alias reads an alias as the node it stands for.
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

// name reads a mark and what follows it.
func (p *parser) name() string {
	end := p.pos + 1
	for end < len(p.text) && !isBlank(p.text, end) && !isFlowMark(p.text[end]) {
		end++
	}
	name := p.text[p.pos+1 : end]
	p.advance(end - p.pos)
	return name
}

// refuse fails at a mark that cannot begin a value or a key.
func (p *parser) refuse(mark byte) {
	at := p.here()
	switch mark {
	case '&':
		p.fail(at, "anchors are not read here").Hint = `write "&…" in quotes if it is a value`
	case '*':
		p.fail(at, "aliases are not read here").Hint = `write "*…" in quotes if it is a pattern`
	case '!':
		p.fail(at, "tags are not read here").Hint = `write "!…" in quotes if it is a value or an expression`
	default:
		p.syntax(at, "%q cannot begin a value or a key", mark)
	}
}

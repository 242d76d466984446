package strictdoc

// flow reads a list in brackets or a mapping in braces.
func (p *parser) flow(n *Node, depth int) {
	base := len(p.stack)
	end, what := byte(']'), "the bracket ["
	n.Kind = List
	if p.peek() == '{' {
		n.Kind, end, what = Mapping, '}', "the brace {"
	}
	p.advance(1)
	for p.next(n.At, what) != end && p.err == nil {
		if !p.flowPart(n, base, depth+1) || !p.separated(n.At, end, what) {
			return
		}
	}
	if p.err == nil {
		p.advance(1)
		n.Items = p.pop(base)
	}
}

// flowPart reads an item or a field. It reports whether more are allowed.
func (p *parser) flowPart(n *Node, base, depth int) bool {
	if n.Kind == Mapping {
		return p.pushField(base, p.field(depth))
	}
	return p.pushItem(base, p.flowItem(n.At, depth))
}

// next moves to the next item in brackets that began at a spot.
func (p *parser) next(open Position, closing string) byte {
	p.skip()
	if p.ended() && p.err == nil {
		p.syntax(open, "%s is not closed", closing)
	}
	return p.peek()
}

// flowItem reads an item of a list that began at a spot.
func (p *parser) flowItem(open Position, depth int) (item Node) {
	p.flowNode(&item, depth)
	if p.next(open, "the bracket [") == ':' {
		p.pair(&item, depth)
	}
	return item
}

// separated moves over a comma. It reports whether there is one, or the end.
func (p *parser) separated(open Position, end byte, what string) bool {
	switch c := p.next(open, what); {
	case p.err != nil:
		return false
	case c == ',':
		p.advance(1)
	case c != end:
		p.syntax(p.position(), "',' or '%c' is missing", end)
		return false
	}
	return true
}

// pair turns an item of a list into a mapping with one field, which the item begins: [a: b] is [{a: b}].
func (p *parser) pair(n *Node, depth int) {
	if n.Kind != Scalar || p.line != n.At.Line {
		p.syntax(n.At, "a key must be a single value on one line")
		return
	}
	field := Node{Key: n.Text, KeyStyle: n.Style, KeyAt: n.At}
	n.Kind, n.Style, n.Text = Mapping, Plain, ""
	p.fieldValue(&field, depth+1)
	base := len(p.stack)
	if p.pushField(base, field) {
		n.Items = p.pop(base)
	}
}

// field reads a field of a mapping in braces.
func (p *parser) field(depth int) Node {
	var n Node
	n.At = p.position()
	switch c := p.peek(); {
	case p.isEntry('?'):
		p.explicitKey()
		return n
	case isFlowMark(c) || c == '&' || c == '*' || c == '!':
		p.refuse(c)
		return n
	}
	p.key(&n, true)
	if n.Style == Plain {
		p.continued(&n, 0, true)
	}
	item := Node{Key: n.Text, KeyStyle: n.Style, KeyAt: n.At}
	switch p.skip(); {
	case p.peek() != ':':
		p.enter(depth)
	case p.line != n.At.Line:
		p.syntax(n.At, "a key must be a single value on one line")
	default:
		p.fieldValue(&item, depth)
	}
	return item
}

// fieldValue reads a colon and the value after it.
func (p *parser) fieldValue(item *Node, depth int) {
	p.advance(1)
	p.skip()
	if c := p.peek(); c == ',' || c == '}' || c == ']' {
		p.enter(depth)
		return
	}
	p.flowNode(item, depth)
}

// flowNode reads a value within brackets.
func (p *parser) flowNode(n *Node, depth int) {
	if !p.enter(depth) {
		return
	}
	n.At = p.position()
	switch c := p.peek(); {
	case c == '[' || c == '{':
		p.flow(n, depth)
	case c == '&' || c == '!':
		property := p.property(depth)
		if c := p.peek(); c != ',' && c != ']' && c != '}' {
			p.flowNode(n, depth)
		}
		p.bind(property, n, depth)
	case c == '*':
		p.alias(n, depth)
	case p.isEntry('?'):
		p.explicitKey()
	default:
		if p.key(n, true); n.Style == Plain {
			p.continued(n, 0, true)
		}
		p.resolve(n)
	}
}

package strictdoc

// block reads a node that begins here, in a column beyond that of its parent. Inline, after a key or ---, it
// cannot be a block collection.
func (p *parser) block(n *Node, parent int32, depth int, inline bool) {
	if !p.enter(depth) {
		return
	}
	n.At = p.position()
	switch c := p.peek(); {
	case c == '&' || c == '!':
		p.propertyThenBlock(n, parent, depth, inline)
	case c == '*':
		p.alias(n, depth)
	case p.isEntry('?'):
		p.explicitKey()
	case p.isEntry('-'):
		if inline {
			p.syntax(n.At, "block sequence entries are not allowed in this context")
			return
		}
		p.sequence(n, depth)
	case c == '|' || c == '>':
		p.blockScalar(n, parent)
	case c == '[' || c == '{':
		p.flow(n, depth)
		if p.isColon() {
			p.syntax(n.At, "a key must be a single value on one line")
		}
	default:
		p.scalarOrMapping(n, parent, depth, inline)
	}
}

// propertyThenBlock reads a tag or an anchor and its node, if one follows.
func (p *parser) propertyThenBlock(n *Node, parent int32, depth int, inline bool) {
	property := p.property(depth)
	onSameLine := p.line == n.At.Line
	if isEmpty := p.ended() || !onSameLine && p.column <= parent && !(p.column == parent && p.isEntry('-')); !isEmpty {
		p.block(n, parent, depth, inline && onSameLine)
	}
	p.bind(property, n, depth)
}

// isEntry reports whether an indicator is here, followed by space.
func (p *parser) isEntry(mark byte) bool { return p.peek() == mark && isBlank(p.text, p.pos+1) }

// isColon skips space, and reports whether the text before it is a key.
func (p *parser) isColon() bool {
	p.space()
	return p.isEntry(':')
}

// indented rejects a tab in the indentation.
func (p *parser) indented() bool {
	if p.fresh && p.tab != (Position{}) {
		p.syntax(p.tab, "tabs are not allowed for indentation; use spaces")
	}
	return p.err == nil
}

func (p *parser) explicitKey() {
	p.fail(p.position(), "explicit keys are not supported").Hint = "write key: value"
}

// scalarOrMapping reads a scalar, or the mapping whose first key it is.
func (p *parser) scalarOrMapping(n *Node, parent int32, depth int, inline bool) {
	tab := p.tab
	p.key(n, false)
	if p.line != n.At.Line || !p.isColon() {
		if n.Style == Plain {
			p.continued(n, parent, false)
		}
		p.resolve(n)
		return
	}
	switch {
	case inline:
		p.syntax(n.At, "mapping value is not allowed in this context")
	case tab != (Position{}):
		p.syntax(tab, "tabs are not allowed for indentation; use spaces")
	default:
		p.mapping(n, depth)
	}
}

// mapping reads a block mapping. Its first key is already read, as the text of the node.
func (p *parser) mapping(n *Node, depth int) {
	base, column := len(p.stack), n.At.Column
	item := Node{Key: n.Text, KeyStyle: n.Style, KeyAt: n.At}
	n.Kind, n.Style, n.Text = Mapping, Plain, ""
	for {
		p.advance(1) // the colon
		p.value(&item, column, depth+1)
		if !p.pushField(base, item) || !p.nextItem(column) {
			break
		}
		if p.isEntry('-') {
			p.misplaced()
			break
		}
		item = p.nextKey()
	}
	n.Items = p.pop(base)
}

// nextKey reads another key of a block mapping, up to its colon.
func (p *parser) nextKey() Node {
	var n Node
	n.At = p.position()
	switch c := p.peek(); {
	case p.isEntry('?'):
		p.explicitKey()
	case c == '&' || c == '*' || c == '!' || c == '[' || c == '{' || c == '|' || c == '>':
		p.refuse(c)
	default:
		if p.key(&n, false); p.line != n.At.Line || !p.isColon() {
			p.syntax(n.At, "could not find expected ':'")
		}
	}
	return Node{Key: n.Text, KeyStyle: n.Style, KeyAt: n.At}
}

// value reads the value of a field whose key is at column.
func (p *parser) value(item *Node, column int32, depth int) {
	line := p.line
	p.skip()
	switch {
	case p.ended():
		p.enter(depth)
	case p.line == line:
		p.block(item, column, depth, true)
	case p.column > column && p.indented():
		p.block(item, column, depth, false)
	case p.column == column && p.isEntry('-'):
		p.block(item, column-1, depth, false)
	default:
		p.enter(depth)
	}
}

// sequence reads a block list.
func (p *parser) sequence(n *Node, depth int) {
	if p.tab != (Position{}) {
		p.syntax(p.tab, "tabs are not allowed for indentation; use spaces")
		return
	}
	base, column := len(p.stack), p.column
	n.Kind = List
	for {
		if !p.pushItem(base, p.entry(column, depth+1)) || !p.nextItem(column) || !p.isEntry('-') {
			break
		}
	}
	n.Items = p.pop(base)
}

// entry reads a dash and the item after it.
func (p *parser) entry(column int32, depth int) (item Node) {
	dash := p.position()
	p.advance(1)
	p.skip()
	if !p.ended() && (p.line == dash.Line || p.column > column && p.indented()) {
		p.block(&item, column, depth, false)
	} else {
		p.enter(depth)
	}
	if item.Kind == Null {
		item.At = dash // the only position there is
	}
	return item
}

// nextItem moves to what follows an item of a block collection, and reports whether that is in the same column.
func (p *parser) nextItem(column int32) bool {
	p.skip()
	if p.ended() || !p.indented() {
		return false
	}
	if !p.fresh || p.column > column {
		p.misplaced()
	}
	return p.column == column
}

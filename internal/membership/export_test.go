package membership

// ReadNode decodes the facts of a node.
func ReadNode(text string) (*Node, error) { return readNode(text) }

// WriteNode encodes the facts of a node.
func WriteNode(n Node) string { return n.write() }

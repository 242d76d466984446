package membership

// ReadNode reads what a node said.
func ReadNode(text string) (*Node, error) { return readNode(text) }

// WriteNode writes what a node says.
func WriteNode(n Node) string { return n.write() }

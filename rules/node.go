package rules

// A node is a part of a text, whether written as YAML or as JSON: a scalar, a list or a mapping,
// and where it stands.
type node struct {
	kind  nodeKind
	style style

	key   string // in a mapping
	keyAt spot

	at    spot
	text  string // of a scalar
	items []node // of a list or a mapping
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	scalarNode
	listNode
	mappingNode
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// A style is how a scalar is written.
type style uint8

const (
	plain   style = iota
	quoted        // can only be a string
	literal       // after |
	folded        // after >
)

// step returns the field or the item, nil if there is none.
func (n *node) step(step any) *node {
	switch step := step.(type) {
	case int:
		if n.kind == listNode && step < len(n.items) {
			return &n.items[step]
		}
	case string:
		if n.kind != mappingNode {
			return nil
		}
		for i := range n.items {
			if n.items[i].key == step {
				return &n.items[i]
			}
		}
	}
	return nil
}

// Nodes as they are made of values, to be written.

func scalarOf(text string) *node { return &node{kind: scalarNode, text: text} }

func quotedOf(text string) *node { return &node{kind: scalarNode, style: quoted, text: text} }

func (n *node) add(key string, value *node) {
	value.key = key
	n.items = append(n.items, *value)
}

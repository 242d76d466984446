package strictdoc

import "fmt"

// A Node is a value and its position: a scalar, a list or a mapping.
type Node struct {
	Kind  Kind
	Style Style // of a scalar

	Key      string // in a mapping
	KeyStyle Style
	KeyAt    Position

	At    Position
	Text  string // of a scalar, as it is written; its reader interprets it
	Items []Node // of a list or a mapping
}

// A Position is a position in a text. Lines and columns count from 1, columns in characters.
type Position struct{ Line, Column int32 }

// A Kind says what a node is.
type Kind uint8

const (
	Null Kind = iota
	Scalar
	List
	Mapping
)

func (k Kind) String() string {
	return [...]string{"nothing", "a single value", "a list", "a mapping"}[k]
}

// A Style is how a scalar is written.
type Style uint8

const (
	Plain   Style = iota
	Quoted        // can only be a string
	Literal       // after |
	Folded        // after >
)

// Step returns the field with that name or the item with that index, or nil if there is none.
func (n *Node) Step(step any) *Node {
	switch step := step.(type) {
	case int:
		if n.Kind == List && step < len(n.Items) {
			return &n.Items[step]
		}
	case string:
		if n.Kind != Mapping {
			return nil
		}
		for i := range n.Items {
			if n.Items[i].Key == step {
				return &n.Items[i]
			}
		}
	}
	return nil
}

// Add appends a field to a mapping.
func (n *Node) Add(key string, value *Node) {
	value.Key = key
	n.Items = append(n.Items, *value)
}

// Shift moves a node down by a number of lines. A node without a key gets no key position.
func (n *Node) Shift(lines int32) {
	n.At.Line += lines
	if n.KeyAt.Line > 0 {
		n.KeyAt.Line += lines
	}
	for i := range n.Items {
		n.Items[i].Shift(lines)
	}
}

// Count returns how many nodes a node consists of.
func (n *Node) Count() int {
	count := 1
	for i := range n.Items {
		count += n.Items[i].Count()
	}
	return count
}

// An Error says why a text cannot be read.
type Error struct {
	At      Position
	Message string
	Hint    string // what to write instead; may be empty
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.At.Line, e.At.Column, e.Text()) }

// Text returns the error without its position.
func (e *Error) Text() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ", " + e.Hint
}

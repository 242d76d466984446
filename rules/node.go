package rules

import "github.com/penstock-io/penstock/internal/strictdoc"

// A node is a part of a text: a scalar, a list or a mapping, and where it stands.
type node = strictdoc.Node

const (
	plain   = strictdoc.Plain
	quoted  = strictdoc.Quoted
	literal = strictdoc.Literal
	folded  = strictdoc.Folded
)

// A spot is a place within the one text that is being read.
type spot = strictdoc.Spot

// Nodes as they are made of values, to be written.

func scalarOf(text string) *node { return &node{Kind: strictdoc.Scalar, Text: text} }

func quotedOf(text string) *node { return &node{Kind: strictdoc.Scalar, Style: quoted, Text: text} }

package rules

import "github.com/penstock-io/penstock/internal/strictdoc"

// A node is a part of a text: a scalar, a list or a mapping, and its position.
type node = strictdoc.Node

// A position is a position in the text that is being read.
type position = strictdoc.Position

// The following functions make nodes from values, for writing.

func scalarOf(text string) *node { return &node{Kind: strictdoc.Scalar, Text: text} }

func quotedOf(text string) *node {
	return &node{Kind: strictdoc.Scalar, Style: strictdoc.Quoted, Text: text}
}

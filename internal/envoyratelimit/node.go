package envoyratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/strictdoc"
	"github.com/penstock-io/penstock/rules"
)

// A node is a part of a file and its position.
type node = strictdoc.Node

const (
	nothing = strictdoc.Null
	scalar  = strictdoc.Scalar
	list    = strictdoc.List
	mapping = strictdoc.Mapping
)

type position = strictdoc.Position

// Bounds of a file. Aliases can turn a short text into a large tree.
const (
	maxFile     = 4 << 20
	maxNodes    = 1_000_000
	maxDepth    = 64
	maxPath     = 4096 // bytes of the keys and values that lead to a limit
	maxProblems = 1000
)

// A file is one that is being read, and the problems found in it.
type file struct {
	name     string
	lines    *strictdoc.Lines
	problems rules.Problems
	untold   bool // there are more problems
}

func (f *file) fail(at position, format string, args ...any) {
	f.add(rules.Mistake, at, format, args...)
}

func (f *file) warn(at position, format string, args ...any) {
	f.add(rules.Warning, at, format, args...)
}

func (f *file) add(severity rules.Severity, at position, format string, args ...any) {
	if f.untold {
		return
	}
	if f.untold = len(f.problems) == maxProblems; f.untold { // too many to trust the rest
		f.problems = append(f.problems, rules.Problem{Position: rules.Position{File: f.name}, Message: fmt.Sprintf("checking stopped after %d problems; more are not shown", maxProblems)})
		return
	}
	p := rules.Problem{Severity: severity, Message: fmt.Sprintf(format, args...)}
	at, text, from := f.lines.Show(at)
	p.File, p.Line, p.Column, p.Text = f.name, int(at.Line), int(at.Column), text
	if from > 1 {
		p.TextColumn = int(from)
	}
	f.problems = append(f.problems, p)
}

// parse returns the root of a text, or an empty node if the text is empty or invalid.
func (f *file) parse(data []byte) node {
	text := strings.TrimPrefix(string(data), "\ufeff") // byte order mark, which some editors write
	f.lines = strictdoc.NewLines(text)
	root, err := strictdoc.Read(context.Background(), text, strictdoc.Options{MaxBytes: maxFile, MaxNodes: maxNodes, MaxDepth: maxDepth, Anchors: true})
	switch e, isSyntax := errors.AsType[*strictdoc.Error](err); {
	case isSyntax:
		f.fail(e.At, "error loading config file: %s", e.Text())
	case err != nil:
		f.fail(position{Line: 1, Column: 1}, "error loading config file: %v", err)
	case root != nil:
		merge(root)
		return *root
	}
	return node{At: position{Line: 1, Column: 1}}
}

// merge replaces the merge keys at and below a node by the fields they refer to.
func merge(n *node) {
	mixed := false
	for i := range n.Items {
		merge(&n.Items[i])
		mixed = mixed || isMerge(n, &n.Items[i])
	}
	if !mixed {
		return
	}
	own := map[string]bool{}
	for i := range n.Items {
		own[n.Items[i].Key] = !isMerge(n, &n.Items[i]) || own[n.Items[i].Key]
	}
	var items []node
	for i := range n.Items {
		item := &n.Items[i]
		if !isMerge(n, item) {
			items = append(items, *item)
			continue
		}
		from := []node{*item}
		if item.Kind == list {
			from = item.Items
		}
		for k := range from {
			for _, field := range from[k].Items { // the first of two merged fields wins, and a field written out wins over both
				if !own[field.Key] {
					own[field.Key] = true
					items = append(items, field)
				}
			}
		}
	}
	n.Items = slices.Clip(items)
}

func isMerge(n, item *node) bool {
	return n.Kind == mapping && item.Key == "<<" && item.KeyStyle == strictdoc.Plain
}

// isString reports whether a key is a string, not something else to YAML.
func isString(item *node) bool {
	if item.KeyStyle != strictdoc.Plain {
		return true
	}
	if slices.Contains([]string{"", "~", "null", "true", "false", ".inf", "-.inf", "+.inf", ".nan"}, strings.ToLower(item.Key)) {
		return false
	}
	_, notNumber := strconv.ParseFloat(item.Key, 64)
	_, notInteger := strconv.ParseInt(item.Key, 0, 64)
	return notNumber != nil && notInteger != nil
}

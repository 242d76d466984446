package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A target is a package whose tests are measured, as `go list` describes it.
type target struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Module     struct{ Path string }
}

func listTargets(ctx context.Context, packages []string) ([]*target, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles,Module", "--"}, packages...)...)
	var messages bytes.Buffer
	command.Stderr = &messages
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w\n%s", strings.Join(packages, " "), err, messages.String())
	}
	var targets []*target
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		t := &target{}
		if err := decoder.Decode(t); err != nil {
			return nil, fmt.Errorf("output of go list: %w", err)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// name returns the name of the package in its module as part of a file name.
func (t *target) name() string {
	path := strings.TrimPrefix(strings.TrimPrefix(t.ImportPath, t.Module.Path), "/")
	if path == "" {
		return "root"
	}
	return strings.ReplaceAll(path, "/", "-")
}

// A mutant is one change of one file.
type mutant struct {
	ID          string `json:"id"` // the hash that ranks it
	File        string `json:"file"`
	Line        int    `json:"line"`
	Column      int    `json:"column"`
	Function    string `json:"function,omitempty"` // "": outside functions
	Kind        string `json:"kind"`
	Original    string `json:"original"` // the changed code on one line, and what it becomes
	Replacement string `json:"replacement"`
	Diff        string `json:"diff"`

	start, end int // bytes of the file
	insert     string
	anchors    []place // where to look for coverage: the change itself, then what surrounds it
}

func (m *mutant) position(dir string) string {
	return fmt.Sprintf("%s:%d:%d", filepath.Join(dir, m.File), m.Line, m.Column)
}

// apply returns the source with the change.
func (m *mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.insert), source[m.end:])
}

// mutants returns all mutants of the package, ranked.
func (t *target) mutants(seed string) ([]*mutant, error) {
	var all []*mutant
	for _, name := range t.GoFiles {
		source, err := os.ReadFile(filepath.Join(t.Dir, name))
		if err != nil {
			return nil, err
		}
		found, err := mutate(name, source)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	rank(all, seed)
	return all, nil
}

// rank gives each mutant its ID and sorts by it. The file is not part of the ID, so a function may move.
func rank(all []*mutant, seed string) {
	occurrences := map[[4]string]int{}
	for _, m := range all {
		identity := [4]string{m.Function, m.Kind, m.Original, m.Replacement}
		text := fmt.Sprintf("%q %q %d", seed, identity, occurrences[identity])
		occurrences[identity]++
		hash := sha256.Sum256([]byte(text))
		m.ID = hex.EncodeToString(hash[:8])
	}
	slices.SortFunc(all, func(a, b *mutant) int { return cmp.Compare(a.ID, b.ID) })
}

// A place is a position in a file; both count from 1.
type place struct{ line, column int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// A collector finds the mutants of one file.
type collector struct {
	name   string
	source []byte
	file   *token.File
	path   []ast.Node // from the file to the current node
	found  []*mutant
}

// mutate returns the mutants of a file in the order of the source; none if the file is generated.
func mutate(name string, source []byte) ([]*mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &collector{name: name, source: source, file: files.File(file.Pos())}
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			c.path = c.path[:len(c.path)-1]
			return true
		}
		c.path = append(c.path, node)
		c.visit(node)
		_, isImport := node.(*ast.ImportSpec)
		if isImport { // returning false skips the call with nil
			c.path = c.path[:len(c.path)-1]
		}
		return !isImport
	})
	return c.found, nil
}

func (c *collector) text(start, end token.Pos) string {
	return string(c.source[c.file.Offset(start):c.file.Offset(end)])
}

func (c *collector) nodeText(n ast.Node) string { return c.text(n.Pos(), n.End()) }

// parent returns the nth node above the current one, or nil.
func (c *collector) parent(n int) ast.Node {
	if i := len(c.path) - 1 - n; i >= 0 {
		return c.path[i]
	}
	return nil
}

// maxContext bounds the code that identifies a small change.
const maxContext = 100

// context returns the code that identifies a change of the current node: that of its parent, if it is short.
func (c *collector) context() ast.Node {
	node, parent := c.parent(0), c.parent(1)
	if length := parent.End() - parent.Pos(); length > maxContext || strings.Contains(c.nodeText(parent), "\n") {
		return node
	}
	return parent
}

// add records the change of the code from start to end to the given code. The context contains it.
func (c *collector) add(kind string, context ast.Node, start, end token.Pos, code string) {
	position := c.file.Position(start)
	m := &mutant{
		File: c.name, Line: position.Line, Column: position.Column,
		Function: c.function(), Kind: kind,
		Original:    oneLine(c.nodeText(context)),
		Replacement: oneLine(c.text(context.Pos(), start) + code + c.text(end, context.End())),
		start:       c.file.Offset(start), end: c.file.Offset(end), insert: code,
	}
	m.Diff = diff(c.source, m)
	if m.Function != "" {
		m.anchors = append(m.anchors, place{position.Line, position.Column})
		for _, node := range slices.Backward(c.path) {
			p := c.file.Position(node.Pos())
			m.anchors = append(m.anchors, place{p.Line, p.Column})
		}
	}
	c.found = append(c.found, m)
}

// function returns the name of the surrounding function, with the type of its receiver.
func (c *collector) function() string {
	for _, node := range c.path {
		f, ok := node.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if f.Recv == nil || len(f.Recv.List) == 0 {
			return f.Name.Name
		}
		return strings.TrimLeft(c.nodeText(f.Recv.List[0].Type), "*") + "." + f.Name.Name
	}
	return ""
}

func oneLine(code string) string { return strings.Join(strings.Fields(code), " ") }

// diff returns the changed lines, before with - and after with +.
func diff(source []byte, m *mutant) string {
	first := bytes.LastIndexByte(source[:m.start], '\n') + 1
	last := len(source)
	if i := bytes.IndexByte(source[m.end:], '\n'); i >= 0 {
		last = m.end + i
	}
	after := string(source[first:m.start]) + strings.TrimRight(m.insert, "\n") + string(source[m.end:last])
	var b strings.Builder
	for _, part := range []struct{ sign, lines string }{{"-", string(source[first:last])}, {"+", after}} {
		for line := range strings.SplitSeq(part.lines, "\n") {
			if part.sign == "+" && strings.TrimSpace(line) == "" {
				continue
			}
			b.WriteString(part.sign + line + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

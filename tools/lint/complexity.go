package main

import (
	"go/ast"
	"strings"

	"github.com/fzipp/gocyclo"
	"golang.org/x/tools/go/analysis"
)

const maxComplexity = 15

var complexity = &analysis.Analyzer{
	Name: "complexity",
	Doc:  "reports functions with too many branches",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, file := range pass.Files {
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || isExempt(f.Doc) {
					continue
				}
				if n := gocyclo.Complexity(f); n > maxComplexity {
					pass.Reportf(f.Pos(), "%s has a cyclomatic complexity of %d, more than %d: split it, or write `//gocyclo:ignore REASON` above it",
						f.Name.Name, n, maxComplexity)
				}
			}
		}
		return nil, nil
	},
}

// isExempt says whether a function's comment has the directive, with a reason.
func isExempt(doc *ast.CommentGroup) bool {
	if doc == nil {
		return false
	}
	for _, line := range doc.List {
		if reason, ok := strings.CutPrefix(line.Text, "//gocyclo:ignore "); ok && strings.TrimSpace(reason) != "" {
			return true
		}
	}
	return false
}

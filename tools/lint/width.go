package main

import (
	"go/ast"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/tools/go/analysis"
)

// Columns of a comment, with a tab counted as four: max_line_length in .editorconfig.
const maxWidth, tabWidth = 120, 4

var commentWidth = &analysis.Analyzer{
	Name: "commentwidth",
	Doc:  "reports comments on a line of their own that are too wide",
	Run: func(pass *analysis.Pass) (any, error) {
		for _, file := range pass.Files {
			if ast.IsGenerated(file) {
				continue
			}
			handle := pass.Fset.File(file.Pos())
			source, err := os.ReadFile(handle.Name())
			if err != nil {
				return nil, err
			}
			for _, line := range wideComments(string(source)) {
				pass.Reportf(handle.LineStart(line), "the comment is wider than %d columns", maxWidth)
			}
		}
		return nil, nil
	},
}

// wideComments returns the numbers of lines with a comment that is too wide, except in the output of examples.
func wideComments(source string) (wide []int) {
	number, output := 0, false
	for line := range strings.Lines(source) {
		number++
		text := strings.TrimSpace(line)
		output = strings.HasPrefix(text, "//") && (output || text == "// Output:" || text == "// Unordered output:")
		if !output && commentColumns(line) > maxWidth {
			wide = append(wide, number)
		}
	}
	return wide
}

// commentColumns returns the width of a line that holds only a comment, and 0 for any other. A directive or an address
// cannot be broken.
func commentColumns(line string) int {
	line = strings.TrimRight(line, "\r\n")
	text := strings.TrimLeft(line, "\t")
	if !strings.HasPrefix(text, "// ") || strings.Contains(text, "://") {
		return 0
	}
	return utf8.RuneCountInString(text) + tabWidth*(len(line)-len(text))
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
)

func TestComplexity(t *testing.T) {
	body := "{\n" + strings.Repeat("\tif x {\n\t}\n", maxComplexity) + "}\n" // one more than allowed
	for name, test := range map[string]struct {
		source string
		want   int
	}{
		"too many branches":           {"func f(x bool) " + body, 1},
		"as many as allowed":          {"func f(x bool) " + strings.Replace(body, "\tif x {\n\t}\n", "", 1), 0},
		"exempt":                      {"//gocyclo:ignore one branch for each letter\nfunc f(x bool) " + body, 0},
		"exempt without a reason":     {"//gocyclo:ignore\nfunc f(x bool) " + body, 1},
		"exempt with an empty reason": {"//gocyclo:ignore  \nfunc f(x bool) " + body, 1},
	} {
		if got := findings(t, complexity, "f.go", test.source); got != test.want {
			t.Errorf("%s: %d findings, want %d", name, got, test.want)
		}
	}
}

func TestProductOnly(t *testing.T) {
	source := "func f(x bool) {\n" + strings.Repeat("\tif x {\n\t}\n", maxComplexity) + "}\n"
	filtered := productOnly(complexity, "/kit/")
	for filename, want := range map[string]int{"a/f.go": 1, "a/f_test.go": 0, "a/kit/f.go": 0} {
		if got := findings(t, filtered, filename, source); got != want {
			t.Errorf("%s: %d findings, want %d", filename, got, want)
		}
	}
}

func findings(t *testing.T, a *analysis.Analyzer, filename, source string) (n int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filename, "package p\n\n"+source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	_, err = a.Run(&analysis.Pass{
		Analyzer: a, Fset: files, Pkg: types.NewPackage("p", "p"), Files: []*ast.File{file},
		Report: func(analysis.Diagnostic) { n++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCommentColumns(t *testing.T) {
	for line, want := range map[string]int{
		"// four\n":                           7,
		"\t\t// four":                         15,
		"// \u00fcber\r\n":                    7,
		"x := 1 // " + strings.Repeat("x", 9): 0,
		"//go:embed a b c":                    0,
		"// see https://example.com/" + strings.Repeat("x", 200): 0,
	} {
		if got := commentColumns(line); got != want {
			t.Errorf("%q: %d columns, want %d", line, got, want)
		}
	}
}

func TestWideComments(t *testing.T) {
	wide := "// " + strings.Repeat("x", maxWidth) + "\n"
	source := "package p\n" + wide + "// Output:\n" + wide + "}\n\t" + wide + "// narrow\n"
	if got, want := wideComments(source), []int{2, 6}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
}

package penstock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExported compares the exported names of the root package with a list, so that a new name is a
// deliberate decision. About 80 names are as many as a reader can take in.
func TestExported(t *testing.T) {
	const list, most = "testdata/exported.txt", 80
	var names []string
	for _, f := range productFiles(t, ".") {
		for _, d := range f.Decls {
			names = append(names, exportedNames(d)...)
		}
	}
	slices.Sort(names)
	if len(names) > most {
		t.Errorf("the root package exports %d names, at most %d", len(names), most)
	}
	got := strings.Join(names, "\n") + "\n"
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(list, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the root package exports\n%s\nand %s lists\n%s\nIf the change is meant: PENSTOCK_TEST_UPDATE=1 go test . -run TestExported", got, list, want)
	}
}

// exportedNames lists the exported names of a top-level declaration, without methods.
func exportedNames(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			names = append(names, "func "+d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() {
					names = append(names, "type "+spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					if name.IsExported() {
						names = append(names, d.Tok.String()+" "+name.Name)
					}
				}
			}
		}
	}
	return names
}

// TestSignatures: an exported function has at most five parameters and one boolean. A call with more cannot
// be read without the declaration next to it.
func TestSignatures(t *testing.T) {
	dirs := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || path == "bench" || path == "tools" || d.Name() != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			dirs[filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil || len(dirs) < 20 {
		t.Fatalf("%d packages: %v", len(dirs), err)
	}
	for dir := range dirs {
		for name, f := range productFiles(t, dir) {
			ast.Inspect(f, func(n ast.Node) bool {
				for fn, signature := range exportedFuncs(n) {
					if problem := signatureProblem(signature); problem != "" {
						t.Errorf("%s: %s has %s: split it, or take a struct", name, fn, problem)
					}
				}
				return true
			})
		}
	}
}

// exportedFuncs returns the exported functions and methods that a node declares, in interfaces too.
func exportedFuncs(n ast.Node) map[string]*ast.FuncType {
	found := map[string]*ast.FuncType{}
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Name.IsExported() {
			found[n.Name.Name] = n.Type
		}
	case *ast.InterfaceType:
		for _, m := range n.Methods.List {
			if signature, ok := m.Type.(*ast.FuncType); ok && m.Names[0].IsExported() {
				found[m.Names[0].Name] = signature
			}
		}
	}
	return found
}

func TestSignaturesObject(t *testing.T) {
	for signature, bad := range map[string]bool{
		"func(a, b, c, d, e int)":         false,
		"func(a, b, c, d, e, f int)":      true,
		"func(int, int, bool, int)":       false,
		"func(a bool, n int) (b bool)":    false,
		"func(a bool, n int, b bool)":     true,
		"func(a, b bool)":                 true,
		"func(bool, bool)":                true,
		"func(f func(a, b bool), c bool)": false,
	} {
		e, err := parser.ParseExpr(signature)
		if err != nil {
			t.Fatal(err)
		}
		if problem := signatureProblem(e.(*ast.FuncType)); problem != "" != bad {
			t.Errorf("%s: %q", signature, problem)
		}
	}
}

func signatureProblem(f *ast.FuncType) string {
	parameters, booleans := 0, 0
	for _, field := range f.Params.List {
		n := max(1, len(field.Names))
		parameters += n
		if id, ok := field.Type.(*ast.Ident); ok && id.Name == "bool" {
			booleans += n
		}
	}
	switch {
	case parameters > 5:
		return fmt.Sprintf("%d parameters", parameters)
	case booleans > 1:
		return fmt.Sprintf("%d booleans", booleans)
	}
	return ""
}

// productFiles parses the files of a package without its tests.
func productFiles(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = f
	}
	return files
}

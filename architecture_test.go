package penstock_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

const architecturePage = "docs/ARCHITECTURE.md"

// maxHops is how many steps a path on the page may have.
const maxHops = 12

// architecture returns the sections of the page by their titles, in order.
func architecture(t *testing.T) (titles []string, sections map[string]string) {
	t.Helper()
	page, err := os.ReadFile(architecturePage)
	if err != nil {
		t.Fatal(err)
	}
	sections = map[string]string{}
	for _, part := range regexp.MustCompile(`(?m)^##+ `).Split(string(page), -1)[1:] {
		title, text, _ := strings.Cut(part, "\n")
		titles = append(titles, title)
		sections[title] = text
	}
	return titles, sections
}

var (
	hop       = regexp.MustCompile(`(?m)^\d+\. .*$`)
	placed    = regexp.MustCompile("`([\\w.]+)` in `([\\w/.]+\\.go)`")
	goFile    = regexp.MustCompile("`[\\w/.-]+\\.(?:go|lua)`")
	tableName = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

// The paths have few hops, and the functions they name are in the files they name.
func TestArchitecturePaths(t *testing.T) {
	_, sections := architecture(t)
	for _, title := range []string{"The path of a request", "The path of a rule", "The path of an Envoy request"} {
		hops := hop.FindAllString(sections[title], -1)
		if len(hops) < 5 || len(hops) > maxHops {
			t.Errorf("%s has %d hops; want 5 to %d", title, len(hops), maxHops)
		}
		for _, h := range hops {
			pairs := placed.FindAllStringSubmatch(h, -1)
			if files := goFile.FindAllString(h, -1); len(pairs) == 0 || len(files) != len(pairs) {
				t.Errorf("%s: %q names %d functions in %d files; write `Function` in `file.go`", title, h, len(pairs), len(files))
			}
			for _, p := range pairs {
				if !declares(t, p[2], p[1]) {
					t.Errorf("%s: %s is not in %s", title, p[1], p[2])
				}
			}
		}
	}
}

// declares reports whether a file has a function, or a method written as Type.Method.
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return true
	}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && functionName(f) == name {
			return true
		}
	}
	return false
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return f.Name.Name
	}
	return name.Name + "." + f.Name.Name
}

// Each package is listed once, and imports only packages of its own layer and of those below. Only tests
// import test packages.
func TestArchitectureLayers(t *testing.T) {
	const forTests = "For tests"
	titles, sections := architecture(t)
	layer, layers := map[string]int{}, []string{}
	isPackages := false
	for _, title := range titles {
		switch {
		case title == "Packages":
			isPackages = true
			continue
		case !isPackages || title == "Rules of the house":
			isPackages = false
			continue
		}
		for _, row := range tableName.FindAllStringSubmatch(sections[title], -1) {
			if _, twice := layer[row[1]]; twice {
				t.Errorf("%s is listed twice", row[1])
			}
			layer[row[1]] = len(layers)
		}
		layers = append(layers, title)
	}
	if len(layers) < 8 || layers[len(layers)-1] != forTests {
		t.Fatalf("layers %q; want at least 8, the last one %s", layers, forTests)
	}
	packages := listPackages(t)
	within := func(path string) string {
		if path == module {
			return "."
		}
		return strings.TrimPrefix(path, module+"/")
	}
	for path, p := range packages {
		at, listed := layer[within(path)]
		if !listed {
			t.Errorf("%s is not listed in %s", within(path), architecturePage)
			continue
		}
		for _, imported := range p.Imports {
			below, ours := layer[within(imported)]
			isKit := ours && layers[below] == forTests
			if ours && layers[at] != forTests && (below < at || isKit) {
				t.Errorf("%s (%s) imports %s (%s), which is above it or for tests", within(path), layers[at], within(imported), layers[below])
			}
		}
	}
	for name := range layer {
		if _, ok := packages[strings.TrimSuffix(module+"/"+strings.TrimPrefix(name, "."), "/")]; !ok {
			t.Errorf("%s is listed and is not a package", name)
		}
	}
}

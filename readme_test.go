package penstock_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// given declares what the code in documents uses without declaring it.
const given = `package snippets

import (
	"context"
	"net/http"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

var (
	ctx            context.Context
	handler        http.Handler
	userID, secret string
	cost           int64
	store          penstock.Store
	limiter        *penstock.Limiter
	snapshot       *rules.Snapshot
)
`

// snippetImports are the packages that the code in documents may use, by their names.
var snippetImports = map[string]string{
	"http": "net/http", "netip": "net/netip", "slog": "log/slog", "grpc": "google.golang.org/grpc", "penstock": module,
	"engine": module + "/engine", "grpclimit": module + "/grpclimit", "httplimit": module + "/httplimit",
	"memstore": module + "/memstore", "redisstore": module + "/redisstore", "stack": module + "/stack", "database": module + "/stack/database",
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// The Go code in documents compiles, and the test fails if it does not.
func TestDocumentsCompile(t *testing.T) {
	files := map[string]string{"given.go": given}
	for _, document := range []string{"README.md", "docs/tutorials/go.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		blocks := goBlock.FindAllStringSubmatchIndex(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Go code", document)
		}
		for _, at := range blocks {
			line := strings.Count(string(text[:at[2]]), "\n") + 1
			files[fmt.Sprintf("snippet%d.go", len(files))] = snippet(t, fmt.Sprintf("%s:%d", document, line), string(text[at[2]:at[3]]))
		}
	}
	if out, err := buildOverlay(t, files); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	files["broken.go"] = snippet(t, "broken", "limiter, err := penstock.NoSuchThing()")
	if _, err := buildOverlay(t, files); err == nil {
		t.Error("code that is broken compiles")
	}
}

// snippet makes a file from some statements. They ignore errors, which is fine here.
func snippet(t *testing.T, where, code string) string {
	t.Helper()
	body := fmt.Sprintf("func _() {\n//line %s\n%s\n", where, code)
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package snippets\n"+body+"}\n", parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	used, declared := map[string]bool{}, map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && snippetImports[x.Name] != "" {
				used[x.Name] = true
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if x, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared[x.Name] = true
				}
			}
		}
		return true
	})
	imports := ""
	for _, name := range slices.Sorted(maps.Keys(used)) {
		imports += fmt.Sprintf("import %q\n", snippetImports[name])
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		body += "_ = " + name + "\n"
	}
	return "package snippets\n" + imports + body + "}\n"
}

// buildOverlay builds a package of this module that exists only in memory and a folder of the test.
func buildOverlay(t *testing.T, files map[string]string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	replace := map[string]string{}
	for name, text := range files {
		replace[filepath.Join(root, "internal", "snippets", name)] = write(name, []byte(text))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command("go", "build", "-overlay", write("overlay.json", overlay), "./internal/snippets").CombinedOutput()
}

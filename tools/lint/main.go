// Command lint runs the analyzers that go vet and staticcheck do not have. `make check` runs it as
// `go vet -vettool`, so results are cached by package. The table in main is its configuration.
package main

import (
	"strings"

	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/jingyugao/rowserrcheck/passes/rowserr"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"github.com/ryanrolds/sqlclosecheck/pkg/analyzer"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	unitchecker.Main(
		ineffassign.Analyzer,
		nilness.Analyzer,
		unusedwrite.Analyzer,
		commentWidth,
		analyzer.NewAnalyzer(), // *sql.Rows and *sql.Stmt are closed
		rowserr.NewAnalyzer(),
		productOnly(bodyclose.Analyzer), // helpers of tests return responses with a closed body
		productOnly(errorlint.NewAnalyzer(), "/storetest/"), // tests compare the sentinel that they passed in
		productOnly(complexity, "/storetest/"),              // a scenario or a table reads best in one piece
	)
}

// productOnly returns the analyzer without its findings in test files, in the contract test kit, and in paths that
// contain one of the given parts.
func productOnly(a *analysis.Analyzer, except ...string) *analysis.Analyzer {
	filtered := *a
	filtered.Run = func(pass *analysis.Pass) (any, error) {
		p := *pass
		p.Report = func(d analysis.Diagnostic) {
			if name := pass.Fset.Position(d.Pos).Filename; isProduct(name, except) {
				pass.Report(d)
			}
		}
		return a.Run(&p)
	}
	return &filtered
}

func isProduct(filename string, except []string) bool {
	if strings.HasSuffix(filename, "_test.go") {
		return false
	}
	for _, part := range except {
		if strings.Contains(filename, part) {
			return false
		}
	}
	return true
}

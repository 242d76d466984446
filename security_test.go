package penstock_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A statedBound is a row of SECURITY.md: the documented value of a setting's default or a constant.
type statedBound struct{ source, value string }

var boundRow = regexp.MustCompile("(?m)^\\|[^|]*\\| `([^`|]+)` \\| `([^`|]+)` \\|")

// SECURITY.md states the defaults of settings as docs/reference/configuration.md does, which is generated from the
// code, and constants as they are in the code.
func TestSecurityBounds(t *testing.T) {
	text := read(t, "SECURITY.md")
	defaults := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]*)` \\|").FindAllStringSubmatch(read(t, "docs/reference/configuration.md"), -1) {
		defaults[row[1]] = row[2]
	}
	rows := boundRow.FindAllStringSubmatch(text, -1)
	_, bounds, _ := strings.Cut(text, "### Bounds\n")
	for line := range strings.Lines(bounds) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") && !strings.Contains(line, "setting or constant") && !boundRow.MatchString(line) {
			t.Errorf("SECURITY.md: a row without setting and bound: %s", line)
		}
	}
	if len(rows) < 30 {
		t.Errorf("SECURITY.md: only %d bounds", len(rows))
	}
	for _, row := range rows {
		if err := (statedBound{row[1], row[2]}).check(defaults); err != nil {
			t.Errorf("SECURITY.md: %v", err)
		}
	}
}

// The tests that SECURITY.md names as proof exist.
func TestSecurityNamesTests(t *testing.T) {
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(read(t, "SECURITY.md"), -1) {
		missing[name[1]] = true
	}
	if len(missing) < 10 {
		t.Errorf("only %d tests are named", len(missing))
	}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		for _, found := range declared.FindAllStringSubmatch(read(t, file), -1) {
			delete(missing, found[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range missing {
		t.Errorf("SECURITY.md: there is no %s", name)
	}
}

// The test must be able to fail.
func TestSecurityBoundsObject(t *testing.T) {
	defaults := map[string]string{"listen.client_share": "50", "gateway.timeouts.idle": "1m0s"}
	for _, wrong := range []statedBound{
		{"listen.client_share", "51"}, {"gateway.timeouts.idle", "2m"}, {"gateway.timeouts.unknown", "1m"}, {"internal/wire.MaxBody", "63KiB"}, {"internal/wire.MaxNothing", "1"}, {"internal/reqbody.restWithin", "5"}, {"internal/reqbody.restWithin", "6s"},
	} {
		if wrong.check(defaults) == nil {
			t.Errorf("%s is not %s", wrong.source, wrong.value)
		}
	}
	for _, right := range []statedBound{{"gateway.timeouts.idle", "1m"}, {"internal/wire.MaxBody", "64KiB"}, {"internal/reqbody.restWithin", "5s"}} {
		if err := right.check(defaults); err != nil {
			t.Error(err)
		}
	}
}

func (b statedBound) check(defaults map[string]string) error {
	if standard, ok := defaults[b.source]; ok {
		if standard != b.value && number(standard) != number(b.value) {
			return fmt.Errorf("%s is %s by default, not %s", b.source, standard, b.value)
		}
		return nil
	}
	dot := strings.LastIndex(b.source, ".")
	if dot < 0 {
		return fmt.Errorf("%s is neither a setting nor a constant", b.source)
	}
	got, err := constantOf(strings.TrimPrefix(b.source[:dot], "penstock"), b.source[dot+1:])
	if err != nil {
		return err
	}
	if got != number(b.value) {
		return fmt.Errorf("%s is %d, not %s", b.source, got, b.value)
	}
	return nil
}

// number parses a number, a size or a duration, which is in nanoseconds; -1 if it is none of them.
func number(text string) int64 {
	for unit, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "": 1} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(text, unit), 10, 64); err == nil && strings.HasSuffix(text, unit) {
			return n * factor
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return int64(d)
	}
	return -1
}

var known = constants{"time": timeUnits()}

// constantOf returns the value of an integer constant of a package of this module.
func constantOf(within, name string) (int64, error) {
	p, err := known.Import(path.Join(module, within))
	if err != nil {
		return 0, err
	}
	c, ok := p.Scope().Lookup(name).(*types.Const)
	if !ok {
		return 0, fmt.Errorf("package %q has no constant %s", within, name)
	}
	n, exact := constant.Int64Val(constant.ToInt(c.Val()))
	if !exact {
		return 0, fmt.Errorf("%s of package %q is not an integer", name, within)
	}
	return n, nil
}

// constants imports as much of packages as their constants need: those of this module, and the units
// of time.
type constants map[string]*types.Package

func (c constants) Import(name string) (*types.Package, error) {
	if p := c[name]; p != nil {
		return p, nil
	}
	within, ours := strings.CutPrefix(name, module)
	if !ours {
		return nil, fmt.Errorf("package %s is not needed", name)
	}
	names, err := filepath.Glob(filepath.Join(".", within, "*.go"))
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range names {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	config := types.Config{Importer: c, IgnoreFuncBodies: true, Error: func(error) {}}
	c[name], _ = config.Check(name, files, parsed, nil) // what was not imported is an error
	return c[name], nil
}

func timeUnits() *types.Package {
	p := types.NewPackage("time", "time")
	for name, d := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
		p.Scope().Insert(types.NewConst(token.NoPos, p, name, types.Typ[types.UntypedInt], constant.MakeInt64(int64(d))))
	}
	p.MarkComplete()
	return p
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

package storestack

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/redisstore"
)

// A decision passes through four stores, and no more.
func TestLayers(t *testing.T) {
	s, err := Open(Options{Redis: &redisstore.Options{Addresses: []string{"127.0.0.1:1"}}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var layers []string
	for v := reflect.ValueOf(s.Shared).Elem(); ; v = v.FieldByName("inner").Elem().Elem() {
		layers = append(layers, v.Type().String())
		if !v.FieldByName("inner").IsValid() {
			break
		}
	}
	if want := []string{"denycache.Cache", "lease.Store", "breaker.Breaker", "redisstore.Store"}; !slices.Equal(layers, want) {
		t.Errorf("a decision passes %v, want %v", layers, want)
	}
}

// A store around a store embeds it: no method only calls the same method of the inner store.
func TestNothingIsForwardedByHand(t *testing.T) {
	for _, dir := range []string{"denycache", "lease", "breaker"} {
		files, err := filepath.Glob(filepath.Join("../../engine", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && forwards(fn) {
					t.Errorf("%s: %s only calls the inner store: embedding does", file, fn.Name.Name)
				}
			}
		}
	}
}

func TestForwards(t *testing.T) {
	for body, want := range map[string]bool{
		"return s.inner.Size(ctx)":                   true,
		"return s.store.Size(ctx)":                   true,
		"defer s.forget(); return s.inner.Size(ctx)": false,
		"return s.inner.Keys(ctx)":                   false,
		"return s.count()":                           false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc (s *Store) Size(ctx context.Context) (int64, error) {"+body+"}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := forwards(f.Decls[0].(*ast.FuncDecl)); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}

// forwards reports whether a method only calls the method of the same name of a field.
func forwards(fn *ast.FuncDecl) bool {
	if fn.Recv == nil || len(fn.Body.List) != 1 {
		return false
	}
	ret, ok := fn.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return false
	}
	call, ok := ret.Results[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != fn.Name.Name {
		return false
	}
	_, ok = method.X.(*ast.SelectorExpr)
	return ok
}

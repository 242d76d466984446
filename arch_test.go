package penstock_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/penstock-io/penstock"

// stores are the packages that keep state.
var stores = []string{"memstore", "redisstore"}

// A rule says what a package may not import, directly or, if marked so, through others. Tests may import
// anything: the compiler rules out cycles.
type rule struct {
	of      func(path string) bool // path within the module; "" is the root
	not     func(path string) bool // as imported
	through bool
	because string
}

var rules = []rule{
	{
		of: isVocabulary, not: thirdParty, through: true,
		because: "the root package and what it stands on is what everybody who imports any part of Penstock links: std only",
	},
	{
		of: is("algorithm"), not: allBut("internal/enum", "internal/spelling"),
		because: "the arithmetic needs nothing: stores, the front door and the engine stand on it",
	},
	{
		of: is("attribute"), not: allBut("internal/enum"),
		because: "where attributes come from is read by middleware and rules alike",
	},
	{
		of: is("storage"), not: allBut("algorithm", "internal/enum"),
		because: "the contract of stores stands on the arithmetic alone",
	},
	{
		of: func(p string) bool { return slices.Contains(stores, p) || p == "storetest" }, not: is(module),
		because: "a store knows its contract and the arithmetic; the front door stands on stores, not under them",
	},
	{
		of: isVocabulary, not: oneOf("os", "net", "net/http", "log", "log/slog", "syscall", "io", "bufio", "math/rand", "crypto/rand"),
		because: "the root package and what it stands on does no I/O, so that every decision can be replayed",
	},
	{
		of: is("memstore"), not: anyOf(thirdParty, sibling("memstore")), through: true,
		because: "deciding in process must cost no dependency: memstore is std and the vocabulary",
	},
	{
		of: is("redisstore"), not: siblingBut("redisstore", "internal/rawconn", "internal/redisdial", "internal/secret"),
		because: "adapters import the contract, never each other: what two stores share is storage's or storetest's to say",
	},
	{
		of: under("storetest"), not: own(stores...), through: true,
		because: "the contract must not know who keeps it: a store calls storetest, not the reverse",
	},
	{
		of: func(p string) bool {
			return !slices.Contains(stores, p) && !anyOf(under("cmd"), is("stack"), is("internal/storestack"), is("internal/config"), is("internal/server"), is("internal/doctor"))(p)
		},
		not:     own(stores...),
		because: "only what assembles a node chooses a store: everybody else is handed a penstock.Store",
	},
	{
		of: under("rules"), not: anyOf(linksSQL, linksRedis), through: true,
		because: "reading and matching rules needs no database: the origin of rules is passed in",
	},
	{
		of: is("rules"), not: anyOf(own("rules/live"), oneOf("os", "net/http", "github.com/fsnotify/fsnotify")),
		because: "rules are compiled from texts: reading files and following them is rules/live",
	},
	{
		of: func(p string) bool { return p != "rules/internal/expr" }, not: linksCEL,
		because: "expressions are compiled and evaluated in one place: rules/internal/expr",
	},
	{
		of: is("rules/internal/pattern"), not: anyOf(thirdParty, own("rules")), through: true,
		because: "what a path or a value fits is for the compiler and the index alike: std and the forms of URLs and addresses",
	},
	{
		of: is("rules/internal/index"), not: own("internal/strictdoc"), through: true,
		because: "the index knows conditions, not how they are written",
	},
	{
		of: func(p string) bool { return p != "rules/internal/naive" }, not: own("rules/internal/naive"),
		because: "the naive matcher is for tests",
	},
	{
		of: is("internal/ruledb"), not: linksRedis, through: true,
		because: "the database and Redis know nothing about each other: internal/ruleservice writes to both",
	},
	{
		of: is("internal/ruleredis"), not: linksSQL, through: true,
		because: "a node that learns its rules from Redis needs no database",
	},
	{
		of: is("internal/ruleservice"), not: linksRedis, through: true,
		because: "the service is handed a publisher: it works without Redis too",
	},
	{
		of: under("engine"), not: anyOf(linksSQL, linksRedis, linksGRPC), through: true,
		because: "who embeds the engine must not link Redis, SQL or gRPC for it",
	},
	{
		of: is("stack"), not: anyOf(linksSQL, linksGRPC, linksTelemetry), through: true,
		because: "a program with rules in files links no SQL: stack/database is for the others",
	},
	{
		of: anyOf(under("httplimit"), under("client")), not: anyOf(linksSQL, linksRedis, linksCEL, linksEnvoy), through: true,
		because: "a middleware or a client is handed a penstock.Decider: applications link no rules engine for it",
	},
	{
		of: is("httplimit"), not: linksGRPC, through: true,
		because: "an HTTP middleware needs no gRPC",
	},
	{
		of: is("client"), not: anyOf(linksGRPC, own("client/grpcclient")), through: true,
		because: "who asks over HTTP links no gRPC: client/grpcclient is for the others",
	},
	{
		of: under("grpclimit"), not: anyOf(linksSQL, linksRedis, linksCEL, linksEnvoy), through: true,
		because: "interceptors are handed a penstock.Decider: applications link no rules engine for them",
	},
	{
		of: anyOf(under("internal/api"), under("internal/gateway"), under("internal/grpcapi"), under("internal/rls")), not: anyOf(own("engine"), linksSQL, linksRedis), through: true,
		because: "doors are handed a penstock.Decider and know nothing about how it decides",
	},
	{
		of: func(p string) bool { return p != "internal/telemetry" && p != "internal/server" && !under("cmd")(p) }, not: linksTelemetry,
		because: "what others are told is internal/telemetry's to say: nobody else counts for Prometheus or traces",
	},
	{
		of: anyOf(is("internal/urlform"), is("internal/ipform"), is("internal/onevalue"), is("internal/reqbody"), is("internal/connlimit"), is("internal/listener"), is("internal/held"), is("internal/strictdoc"), is("internal/spelling"), is("internal/problem"), is("internal/bounds"), is("internal/poll")), not: anyOf(thirdParty, siblingBut("internal/ipform", "internal/rawconn")), through: true,
		because: "the forms of URLs and addresses, what must be sent once, the bounds of bodies and connections, the reading of texts, problem documents and the loops that poll are for everybody: std only",
	},
	{
		of: under("internal/console"), not: anyOf(thirdParty, sibling("internal/console")),
		because: "the console is files: the admin API is all it knows",
	},
	{
		of: anyOf(under("internal/admin"), under("internal/traffic"), under("internal/playground")), not: anyOf(linksRedis, linksGRPC),
		because: "operators' tools are handed the store and the engine, whatever these are",
	},
}

func TestImports(t *testing.T) {
	packages := listPackages(t)
	if _, ok := packages[module]; !ok {
		t.Fatalf("go list does not know %s", module)
	}
	for path, p := range packages {
		within, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		within = strings.TrimPrefix(within, "/")
		for _, r := range rules {
			if !r.of(within) {
				continue
			}
			imports := p.Imports
			if r.through {
				imports = p.Deps
			}
			for _, imported := range imports {
				if r.not(imported) {
					t.Errorf("%s imports %s: %s", path, imported, r.because)
				}
			}
		}
	}
}

// A Go program that limits its handlers with counters in memory links the standard library and nothing else:
// no Redis, SQL, gRPC or CEL.
func TestFrontDoorLinksOnlyTheStandardLibrary(t *testing.T) {
	packages := listPackages(t)
	for _, path := range []string{module, module + "/memstore", module + "/httplimit"} {
		p, ok := packages[path]
		if !ok || len(p.Deps) == 0 {
			t.Fatalf("go list does not know %s", path)
		}
		for _, dep := range p.Deps {
			if thirdParty(dep) || dep == "database/sql" || own("engine", "rules", "redisstore", "grpclimit")(dep) {
				t.Errorf("%s links %s", path, dep)
			}
		}
	}
}

// The rules must be able to fail.
func TestImportRulesObject(t *testing.T) {
	for _, test := range []struct{ of, imported string }{
		{"", "github.com/redis/rueidis"},
		{"", "os"},
		{"algorithm", module},
		{"algorithm", module + "/storage"},
		{"storage", module},
		{"storage", "net"},
		{"attribute", module + "/httplimit"},
		{"memstore", module},
		{"redisstore", module},
		{"memstore", "golang.org/x/sys/cpu"},
		{"memstore", module + "/storetest"},
		{"redisstore", module + "/memstore"},
		{"storetest", module + "/redisstore"},
		{"engine", module + "/memstore"},
		{"engine", "database/sql"},
		{"rules", "database/sql"},
		{"rules", "github.com/redis/rueidis"},
		{"rules", module + "/rules/live"},
		{"rules", "os"},
		{"rules/live", module + "/internal/ruledb"},
		{"rules", "cel.dev/cel-go/cel"},
		{"rules", module + "/rules/internal/naive"},
		{"rules/internal/index", module + "/internal/strictdoc"},
		{"rules/internal/pattern", module + "/rules/internal/index"},
		{"internal/ruledb", module + "/internal/ruleredis"},
		{"internal/ruleredis", module + "/internal/ruledb"},
		{"internal/ruleservice", module + "/internal/ruleredis"},
		{"engine", "google.golang.org/grpc/codes"},
		{"httplimit", module + "/internal/ruledb"},
		{"httplimit", "cel.dev/cel-go/cel"},
		{"httplimit", "google.golang.org/grpc"},
		{"grpclimit", "github.com/envoyproxy/go-control-plane/envoy/type/v3"},
		{"client", "database/sql"},
		{"client", "google.golang.org/grpc"},
		{"internal/api", module + "/engine"},
		{"engine", "github.com/prometheus/client_golang/prometheus"},
		{"internal/console", module + "/internal/admin"},
		{"internal/admin", module + "/redisstore"},
		{"internal/urlform", module + "/httplimit"},
		{"internal/onevalue", module + "/httplimit"},
		{"stack", module + "/internal/ruledb"},
		{"internal/reqbody", "golang.org/x/net/http/httpguts"},
	} {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.of(test.of) && r.not(test.imported) }) {
			t.Errorf("%q may import %s", test.of, test.imported)
		}
	}
	for _, test := range []struct{ of, imported string }{
		{"", "time"},
		{"", module + "/storage"},
		{"storage", module + "/algorithm"},
		{"algorithm", module + "/internal/enum"},
		{"memstore", module + "/storage"},
		{"redisstore", module + "/algorithm"},
		{"redisstore", "github.com/redis/rueidis"},
		{"cmd/penstock", module + "/memstore"},
		{"internal/server", module + "/redisstore"},
		{"storetest", module + "/storage"},
		{"internal/ruledb", module + "/rules"},
		{"rules/live", module + "/rules"},
		{"rules", module + "/rules/internal/index"},
		{"rules/internal/index", module + "/rules/internal/pattern"},
		{"rules/internal/expr", "cel.dev/cel-go/cel"},
		{"internal/ruleredis", module + "/rules"},
		{"internal/ruleservice", module + "/internal/ruledb"},
		{"engine", module + "/rules"},
		{"grpclimit", "google.golang.org/grpc"},
		{"client/grpcclient", "google.golang.org/grpc"},
		{"internal/gateway", module + "/httplimit"},
		{"internal/telemetry", "github.com/prometheus/client_golang/prometheus"},
		{"internal/admin", module + "/internal/traffic"},
		{"httplimit", module + "/internal/urlform"},
		{"internal/reqbody", "net/http"},
		{"stack", module + "/redisstore"},
		{"stack/database", module + "/internal/ruledb"},
	} {
		for _, r := range rules {
			if r.of(test.of) && r.not(test.imported) {
				t.Errorf("%q may not import %s: %s", test.of, test.imported, r.because)
			}
		}
	}
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// listPackages asks the go command for every package of this module. It also lists packages that do not
// build; reporting that is up to the compiler.
func listPackages(t *testing.T) map[string]listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages[p.ImportPath] = p
	}
}

func is(path string) func(string) bool { return func(p string) bool { return p == path } }

func under(path string) func(string) bool {
	return func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") }
}

func oneOf(paths ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(paths, p) }
}

func anyOf(fs ...func(string) bool) func(string) bool {
	return func(p string) bool { return slices.ContainsFunc(fs, func(f func(string) bool) bool { return f(p) }) }
}

// own reports whether an import is one of these packages of the module.
func own(paths ...string) func(string) bool {
	return func(p string) bool {
		within, ours := strings.CutPrefix(p, module+"/")
		return ours && slices.ContainsFunc(paths, func(path string) bool { return under(path)(within) })
	}
}

// vocabulary is what every package may import besides the root: these packages link only the standard
// library.
var vocabulary = own(vocabularyPaths...)

var vocabularyPaths = []string{"algorithm", "storage", "attribute", "internal/enum", "internal/spelling"}

// isVocabulary reports whether the path within the module is the root or a package that the root imports.
func isVocabulary(path string) bool { return path == "" || slices.Contains(vocabularyPaths, path) }

// sibling reports an import of any package of the module except the root, the vocabulary and what is below
// path.
func sibling(path string) func(string) bool {
	return func(p string) bool { return strings.HasPrefix(p, module+"/") && !own(path)(p) && !vocabulary(p) }
}

// siblingBut is sibling with exceptions.
func siblingBut(path string, except ...string) func(string) bool {
	return func(p string) bool { return sibling(path)(p) && !own(except...)(p) }
}

// allBut reports whether an import is any package of the module except these.
func allBut(paths ...string) func(string) bool {
	return func(p string) bool { return (p == module || strings.HasPrefix(p, module+"/")) && !own(paths...)(p) }
}

// thirdParty reports whether a path belongs neither to the module nor to the standard library, which has no
// dot in its first element and vendors what it borrows.
func thirdParty(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return strings.Contains(first, ".") && p != module && !strings.HasPrefix(p, module+"/")
}

func linksSQL(p string) bool { return p == "database/sql" || own("internal/ruledb")(p) }

func linksRedis(p string) bool { return strings.Contains(p, "redis") }

func linksGRPC(p string) bool { return strings.HasPrefix(p, "google.golang.org/grpc") }

func linksCEL(p string) bool { return strings.HasPrefix(p, "cel.dev/") }

func linksTelemetry(p string) bool {
	return strings.HasPrefix(p, "github.com/prometheus/") || strings.HasPrefix(p, "go.opentelemetry.io/")
}

func linksEnvoy(p string) bool { return strings.Contains(p, "envoyproxy/") }

// TestNoClock: the root package and its imports take instants and never read a clock. The only random numbers
// are the nonces of limiters, which name what is taken and decide nothing.
func TestNoClock(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"}
	var files []string
	for _, dir := range append(vocabularyPaths, ".") {
		found, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no files in %s: %v", dir, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if i.Path.Value == `"math/rand/v2"` && name != "nonce.go" {
				t.Errorf("%s imports math/rand/v2: only nonce.go does, so that every decision can be replayed", name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clock, s.Sel.Name) {
					t.Errorf("%v: time.%s: this package reads no clock, so that every decision can be replayed", fset.Position(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}

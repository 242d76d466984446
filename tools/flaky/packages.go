package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A testPackage is a package with tests, as `go list` describes it.
type testPackage struct {
	Dir                       string
	TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports []string

	name   string // relative to the working directory
	rank   int    // packages of a lower rank run first
	reason string // for the rank
	state  string // directory of its files
}

// The ranks of packages: what is most likely to fail by chance runs first.
const (
	rankFailed = iota
	rankServers
	rankNetwork
	rankOthers
)

// servers are imports of tests that start servers or programs, and network those that use the network.
var (
	servers = regexp.MustCompile(`^os/exec$|/(redistest|pgtest|nodetest|child)$`)
	network = regexp.MustCompile(`^net$|^net/http(/httptest)?$|^google\.golang\.org/grpc|/(rawconn|redisdial)$`)
	waiting = regexp.MustCompile(`\btime\.(Sleep|After|AfterFunc|NewTimer|NewTicker|Since)\(`)
)

// modules are folders with a go.mod.
var modules = []string{".", "bench", "tools"}

// listPackages returns the packages with tests in the order in which they run.
func listPackages(ctx context.Context, o *options) ([]*testPackage, error) {
	working, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var packages []*testPackage
	for module, patterns := range byModule(o.packages) {
		list := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,TestGoFiles,XTestGoFiles,TestImports,XTestImports", "--"}, patterns...)...)
		list.Dir = module
		var messages bytes.Buffer
		list.Stderr = &messages
		output, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list %s in %s: %w\n%s", strings.Join(patterns, " "), module, err, messages.String())
		}
		for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
			p := &testPackage{}
			if err := decoder.Decode(p); err != nil {
				return nil, fmt.Errorf("output of go list: %w", err)
			}
			if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
				continue
			}
			if p.name, err = filepath.Rel(working, p.Dir); err != nil {
				return nil, err
			}
			p.state = filepath.Join(o.stateDir, p.name)
			if err := p.classify(); err != nil {
				return nil, err
			}
			packages = append(packages, p)
		}
	}
	slices.SortFunc(packages, func(a, b *testPackage) int { return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.name, b.name)) })
	return packages, nil
}

// byModule divides patterns such as ./tools/lint by the module that they belong to. Without any, it takes all modules
// that exist.
func byModule(patterns []string) map[string][]string {
	divided := map[string][]string{}
	if len(patterns) == 0 {
		for _, module := range modules {
			if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
				divided[module] = []string{"./..."}
			}
		}
	}
	for _, pattern := range patterns {
		module, rest := ".", pattern
		first, below, _ := strings.Cut(path.Clean(pattern), "/")
		if first != "." && slices.Contains(modules, first) {
			module, rest = first, "./"+below
		}
		divided[module] = append(divided[module], rest)
	}
	return divided
}

// classify finds the rank of the package.
func (p *testPackage) classify() error {
	p.rank, p.reason = rankOthers, ""
	logs, err := filepath.Glob(filepath.Join(p.state, "*.log"))
	if err != nil {
		return err
	}
	imports := slices.Concat(p.TestImports, p.XTestImports)
	if len(logs) > 0 {
		p.rank, p.reason = rankFailed, "failed before"
		return nil
	}
	for _, class := range []struct {
		rank    int
		imports *regexp.Regexp
	}{{rankServers, servers}, {rankNetwork, network}} {
		if i := slices.IndexFunc(imports, class.imports.MatchString); i >= 0 {
			p.rank, p.reason = class.rank, "its tests import "+imports[i]
			return nil
		}
	}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		source, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		if found := waiting.Find(source); found != nil {
			p.rank, p.reason = rankNetwork, fmt.Sprintf("%s calls %s)", name, found)
			return nil
		}
	}
	return nil
}

func (p *testPackage) forget() error {
	runs, err := filepath.Glob(filepath.Join(p.state, "*.jsonl"))
	logs, _ := filepath.Glob(filepath.Join(p.state, "*.log")) // only a wrong pattern is an error
	for _, name := range slices.Concat(runs, logs) {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

// A block is a piece of code that runs as a whole, as a coverage profile names it. Its end is exclusive.
type block struct {
	file       string
	start, end place
}

func (b block) contains(file string, p place) bool {
	return b.file == file && b.start.compare(p) <= 0 && p.compare(b.end) < 0
}

// A testRun is what is known of one top-level test that ran by itself. Its JSON is a line of the state. The one without
// a name lists all blocks of the package.
type testRun struct {
	Test    string   `json:"test"`
	Seconds float64  `json:"seconds"`
	Failed  bool     `json:"failed,omitempty"` // without any change: it cannot kill
	Covered []string `json:"covered"`          // blocks as the profile names them
}

// coverage says which tests run which code.
type coverage struct {
	tests  []testRun        // those that pass, the cheapest first
	failed []string         // those that fail by themselves
	blocks map[string]block // by their names in the profile; with those that no test covers
	by     map[string][]int // indexes of tests by block
}

func newCoverage(runs []testRun) (*coverage, error) {
	c := &coverage{blocks: map[string]block{}, by: map[string][]int{}}
	for _, r := range runs {
		switch {
		case r.Test == "":
			for _, name := range r.Covered {
				b, err := parseBlock(name)
				if err != nil {
					return nil, err
				}
				c.blocks[name] = b
			}
		case r.Failed:
			c.failed = append(c.failed, r.Test)
		default:
			c.tests = append(c.tests, r)
		}
	}
	slices.SortStableFunc(c.tests, func(a, b testRun) int { return cmp.Compare(a.Seconds, b.Seconds) })
	for i, r := range c.tests {
		for _, name := range r.Covered {
			c.by[name] = append(c.by[name], i)
		}
	}
	return c, nil
}

// covering returns the tests that run a mutant, the cheapest first. What surrounds a change decides if the profile has
// no block for the change itself, such as for the expressions of a case.
func (c *coverage) covering(m *mutant) []testRun {
	for _, anchor := range m.anchors {
		if name := c.smallest(m.File, anchor); name != "" {
			tests := make([]testRun, 0, len(c.by[name]))
			for _, i := range c.by[name] {
				tests = append(tests, c.tests[i])
			}
			return tests
		}
	}
	return c.tests
}

// smallest returns the name of the smallest block that contains a place, or "".
func (c *coverage) smallest(file string, p place) (name string) {
	for candidate, b := range c.blocks {
		if !b.contains(file, p) {
			continue
		}
		// Blocks are nested or disjoint, so the one that starts last is the smallest.
		if name == "" || b.start.compare(c.blocks[name].start) > 0 {
			name = candidate
		}
	}
	return name
}

// parseBlock reads the name of a block, such as example.org/module/package/file.go:3.20,5.2.
func parseBlock(name string) (block, error) {
	file, positions, _ := strings.Cut(name, ":")
	b := block{file: path.Base(file)}
	if _, err := fmt.Sscanf(positions, "%d.%d,%d.%d", &b.start.line, &b.start.column, &b.end.line, &b.end.column); err != nil {
		return b, fmt.Errorf("invalid block %q in the coverage profile: %w", name, err)
	}
	return b, nil
}

// readProfile returns the names of all blocks of a coverage profile, and of those that ran.
func readProfile(text string) (all, covered []string, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 { // "mode: set"
			continue
		}
		count, err := strconv.ParseUint(fields[2], 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("invalid line %q in the coverage profile: %w", line, err)
		}
		if all = append(all, fields[0]); count > 0 {
			covered = append(covered, fields[0])
		}
	}
	return all, covered, nil
}

// collectCoverage runs each test by itself, unless the state has its run already.
func (w *workshop) collectCoverage(ctx context.Context) (*coverage, error) {
	tests, err := w.listTests(ctx)
	if err != nil {
		return nil, err
	}
	runs, err := jsonl.Read[testRun](w.stateFile("coverage"))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, r := range runs {
		known[r.Test] = true
	}
	tests = slices.DeleteFunc(tests, func(test string) bool { return known[test] })
	if len(tests) == 0 {
		return newCoverage(runs)
	}
	binary := filepath.Join(w.dir, "cover.test")
	if output, err := w.build(ctx, binary, "-cover", "-covermode=set", "-coverpkg="+w.target.ImportPath); err != nil {
		return nil, fmt.Errorf("build with coverage: %w\n%s", err, output)
	}
	for i, test := range tests {
		r, blocks, err := w.coverTest(ctx, binary, test)
		if err != nil {
			return nil, err
		}
		w.progress("test %d/%d %s: %.2f s", i+1, len(tests), test, r.Seconds)
		saved := []testRun{*r}
		if !known[""] && len(blocks) > 0 {
			saved = append(saved, testRun{Covered: blocks})
			known[""] = true
		}
		if err := jsonl.Append(w.stateFile("coverage"), saved...); err != nil {
			return nil, err
		}
		runs = append(runs, saved...)
	}
	return newCoverage(runs)
}

// coverTest runs one test by itself. It returns the names of all blocks of the package, too.
func (w *workshop) coverTest(ctx context.Context, binary, test string) (*testRun, []string, error) {
	file := filepath.Join(w.dir, "profile")
	if err := os.WriteFile(file, nil, 0o600); err != nil { // a test that exits by itself writes none
		return nil, nil, err
	}
	result, err := w.runTests(ctx, binary, []string{test}, coverageLimit, "-test.coverprofile="+file)
	if err != nil {
		return nil, nil, err
	}
	profile, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	blocks, covered, err := readProfile(string(profile))
	if err != nil {
		return nil, nil, err
	}
	if !result.passed && result.exceeded == "" { // perhaps because of the instrumentation
		if result, err = w.runTests(ctx, w.original, []string{test}, coverageLimit); err != nil {
			return nil, nil, err
		}
	}
	return &testRun{Test: test, Seconds: result.own.Seconds(), Failed: !result.passed, Covered: covered}, blocks, nil
}

// coverageLimit is longer than the limit of mutants: a test that takes longer is still worth knowing.
const coverageLimit = 10 * time.Minute

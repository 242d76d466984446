package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/tools/internal/jsonl"
)

// A result is what became of a mutant.
type result string

const (
	killed       result = "killed"
	timedOut     result = "timed out"
	survived     result = "survived"
	notCovered   result = "not covered"
	notCompiling result = "not compiling" // replaced by the next mutant, as is:
	equivalent   result = "equivalent"    // compiles to the same program
)

// A trial is a mutant with its result. Its JSON is a line of the state.
type trial struct {
	mutant
	Result   result   `json:"result"`
	By       []string `json:"by,omitempty"`       // the tests that killed it; all of them with -all
	Limit    string   `json:"limit,omitempty"`    // what it exceeded, if it timed out
	Unstable []string `json:"unstable,omitempty"` // tests that failed once, then passed
	Tests    int      `json:"tests"`              // covering tests, and how many of them were left out
	LeftOut  int      `json:"left_out,omitempty"`
	Seconds  float64  `json:"seconds"` // that the tests used or slept
}

// A workshop builds and tests the mutants of one package.
type workshop struct {
	target      *target
	limit       time.Duration
	all         bool   // run all tests, even after one failed
	state       string // directory
	dir         string // for the files of this run
	original    string // the test binary without any change
	fingerprint string // its hash
}

// newWorkshop builds the original test binary. Call close at the end.
func newWorkshop(ctx context.Context, o *options, t *target) (*workshop, error) {
	state, err := filepath.Abs(o.stateDir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state, 0o777); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutate") // short: paths of sockets in it are limited to about 100 bytes
	if err != nil {
		return nil, err
	}
	w := &workshop{target: t, limit: o.limit, all: o.all, state: state, dir: dir, original: filepath.Join(dir, "original.test")}
	output, err := w.build(ctx, w.original)
	if err == nil {
		w.fingerprint, err = hashFile(w.original)
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("build the tests: %w\n%s", err, output)
	}
	return w, nil
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

func (w *workshop) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format(time.TimeOnly), w.target.name(), fmt.Sprintf(format, args...))
}

// build compiles the tests of the package. Without the symbols and the build ID, equal programs are equal files.
func (w *workshop) build(ctx context.Context, binary string, flags ...string) (output []byte, err error) {
	args := append([]string{"test", "-c", "-o", binary, "-ldflags=-s -w -buildid="}, flags...)
	command := exec.CommandContext(ctx, "go", append(args, ".")...)
	command.Dir = w.target.Dir
	if output, err = command.CombinedOutput(); err != nil {
		return output, err
	}
	if _, err := os.Stat(binary); err != nil {
		return output, errors.New("the package has no tests")
	}
	return output, nil
}

func hashFile(name string) (string, error) {
	data, err := os.ReadFile(name)
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:8]), err
}

func (w *workshop) listTests(ctx context.Context) (tests []string, err error) {
	command := exec.CommandContext(ctx, w.original, "-test.list=.")
	command.Dir = w.target.Dir
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("list tests: %w", err)
	}
	for line := range strings.Lines(string(output)) {
		if regexp.MustCompile(`^(Test|Example|Fuzz)`).MatchString(line) {
			tests = append(tests, strings.TrimSpace(line))
		}
	}
	return tests, nil
}

// A testResult is what a run of a test binary gave.
type testResult struct {
	passed   bool
	failed   []string      // top-level tests; none if the process ended before it could tell
	own      time.Duration // used or slept
	exceeded string        // which limit; "": none
}

// failures finds the names of failed top-level tests.
var failures = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

func (w *workshop) runTests(ctx context.Context, binary string, tests []string, limit time.Duration, flags ...string) (*testResult, error) {
	temporary, err := os.MkdirTemp(w.dir, "t")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	quoted := make([]string, len(tests))
	for i, test := range tests {
		quoted[i] = regexp.QuoteMeta(test)
	}
	// The time limit of package testing is only for the case that this process ends first.
	args := append([]string{"-test.run=^(" + strings.Join(quoted, "|") + ")$", "-test.timeout=30m"}, flags...)
	if !w.all {
		args = append(args, "-test.failfast")
	}
	command := exec.Command(binary, args...)
	command.Dir = w.target.Dir
	command.Env = append(os.Environ(), "TMPDIR="+temporary)
	u, output, err := runLimited(ctx, command, limit)
	if err != nil {
		return nil, err
	}
	r := &testResult{passed: u.exit == 0, own: u.own, exceeded: u.exceeded}
	for _, match := range failures.FindAllSubmatch(output, -1) {
		if name := string(match[1]); slices.Contains(tests, name) {
			r.failed = append(r.failed, name)
		}
	}
	return r, nil
}

// try builds a mutant and runs the tests that cover it.
func (w *workshop) try(ctx context.Context, c *coverage, m *mutant) (*trial, error) {
	t := &trial{mutant: *m}
	binary := filepath.Join(w.dir, "mutant.test")
	overlay, err := w.overlay(m)
	if err != nil {
		return nil, err
	}
	if _, err := w.build(ctx, binary, "-overlay="+overlay); err != nil {
		t.Result = notCompiling
		return t, ctx.Err()
	}
	tests := c.covering(m)
	t.Tests = len(tests)
	if len(tests) == 0 {
		t.Result = notCovered
		return t, nil
	}
	if t.Result, err = w.compare(ctx, binary, overlay); err != nil || t.Result != "" {
		return t, err
	}
	for _, group := range w.plan(t, tests) {
		if err := w.runGroup(ctx, t, binary, group); err != nil {
			return nil, err
		}
		if t.Result == timedOut || t.Result == killed && !w.all {
			return t, nil
		}
	}
	if t.Result == "" {
		t.Result = survived
	}
	return t, nil
}

// compare returns equivalent if a mutant compiles to the same code as the original, and survived if only its tests do,
// such as those that give constants to a function that is inlined. Otherwise the tests must be run.
func (w *workshop) compare(ctx context.Context, binary, overlay string) (result, error) {
	hash, err := hashFile(binary)
	if err != nil || hash != w.fingerprint {
		return "", err
	}
	original, err := w.compile(ctx)
	if err != nil {
		return "", err
	}
	changed, err := w.compile(ctx, "-overlay="+overlay)
	if err != nil {
		return "", err
	}
	if bytes.Equal(original, changed) {
		return equivalent, nil
	}
	return survived, nil
}

// buildID is different for equal code, because it depends on the source.
var buildID = regexp.MustCompile(`build id "[^"]*"`)

// compile returns the object code of the package, without inlining: that would add parts of the source.
func (w *workshop) compile(ctx context.Context, flags ...string) ([]byte, error) {
	name := filepath.Join(w.dir, "package.a")
	command := exec.CommandContext(ctx, "go", append(append([]string{"build", "-gcflags=-l", "-o", name}, flags...), ".")...)
	command.Dir = w.target.Dir
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the package: %w\n%s", err, output)
	}
	code, err := os.ReadFile(name)
	return buildID.ReplaceAllLiteral(code, nil), err
}

// overlay writes the changed file, and the file that makes the go command use it.
func (w *workshop) overlay(m *mutant) (string, error) {
	file := filepath.Join(w.target.Dir, m.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(w.dir, "mutant.go")
	if err := os.WriteFile(changed, m.apply(source), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(w.dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// plan takes the cheapest tests that together need at most half the limit, at least one. It divides them into groups of
// growing cost, each a process of its own, so that most mutants are killed cheaply. With all, each test is a group.
func (w *workshop) plan(t *trial, tests []testRun) (groups [][]testRun) {
	budget := w.limit.Seconds() / 2
	var total float64
	var group []testRun
	next := budget / 16
	for i, test := range tests {
		if total += test.Seconds; total > budget && i > 0 {
			t.LeftOut = len(tests) - i
			break
		}
		group = append(group, test)
		if w.all || total > next {
			groups = append(groups, group)
			group, next = nil, total*4
		}
	}
	if len(group) > 0 {
		groups = append(groups, group)
	}
	return groups
}

// runGroup runs tests until one kills the mutant, if any. Tests that fail run once more by themselves.
func (w *workshop) runGroup(ctx context.Context, t *trial, binary string, tests []testRun) error {
	for len(tests) > 0 {
		first, err := w.runFor(ctx, t, binary, tests)
		if err != nil || t.Result == timedOut || first.passed {
			return err
		}
		failed := func(test testRun) bool { // all, if the process ended before it could say which
			return len(first.failed) == 0 || slices.Contains(first.failed, test.Test)
		}
		var suspects, others []testRun
		for _, test := range tests {
			if failed(test) {
				suspects = append(suspects, test)
			} else {
				others = append(others, test)
			}
		}
		second, err := w.runFor(ctx, t, binary, suspects)
		if err != nil || t.Result == timedOut {
			return err
		}
		if !second.passed {
			t.Result, t.By = killed, append(t.By, names(suspects)...)
			return nil
		}
		t.Unstable, tests = append(t.Unstable, names(suspects)...), others
	}
	return nil
}

func names(tests []testRun) []string {
	list := make([]string, len(tests))
	for i, test := range tests {
		list[i] = test.Test
	}
	return list
}

// allowance returns how many seconds tests of a mutant may take: what is left of the limit, but no more than a sixth of
// it and ten times what they take without any change. Most mutants that exceed that never end.
func allowance(limit, spent, usual float64) float64 { return min(limit-spent, limit/6+10*usual) }

// runFor runs tests of a mutant.
func (w *workshop) runFor(ctx context.Context, t *trial, binary string, tests []testRun) (*testResult, error) {
	usual := 0.0
	for _, test := range tests {
		usual += test.Seconds
	}
	seconds := allowance(w.limit.Seconds(), t.Seconds, usual)
	r, err := w.runTests(ctx, binary, names(tests), time.Duration(seconds*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	t.Seconds += r.own.Seconds()
	if r.exceeded != "" {
		t.Result, t.Limit = timedOut, r.exceeded
	}
	return r, nil
}

// stateFile names the file of what is known of this state of the package.
func (w *workshop) stateFile(kind string) string {
	return filepath.Join(w.state, w.target.name()+"-"+w.fingerprint+"-"+kind+".jsonl")
}

// runTarget runs the sample of one package, without what the state has already, and returns the report.
func runTarget(ctx context.Context, o *options, t *target, mutants []*mutant) (*report, error) {
	w, err := newWorkshop(ctx, o, t)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if o.fresh {
		if err := w.forget(); err != nil {
			return nil, err
		}
	}
	c, err := w.collectCoverage(ctx)
	if err != nil {
		return nil, err
	}
	for _, test := range c.failed {
		w.progress("note: %s fails by itself without any change, so it is not used", test)
	}
	name := w.stateFile(fmt.Sprintf("trials-%v-%v", o.limit, o.all))
	saved, err := jsonl.Read[trial](name)
	if err != nil {
		return nil, err
	}
	known := map[string]*trial{}
	for i := range saved {
		known[saved[i].ID] = &saved[i]
	}
	r := newReport(t, o, len(mutants))
	for _, m := range mutants {
		if r.Sample == o.n && o.n > 0 {
			break
		}
		tried := known[m.ID]
		if tried == nil {
			if tried, err = w.try(ctx, c, m); err != nil {
				return nil, err
			}
			if err := jsonl.Append(name, tried); err != nil {
				return nil, err
			}
			w.progress("%d/%d %s: %s, %s", r.Sample+1, sampleSize(o.n, len(mutants)), tried.Result, m.position(""), m.Kind)
		}
		r.add(tried)
	}
	r.finish(c)
	return r, nil
}

func (w *workshop) forget() error {
	names, err := filepath.Glob(w.stateFile("*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

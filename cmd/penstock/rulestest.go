package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/ruletest"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// A testReport is the result of some test files.
type testReport struct {
	Passed int          `json:"passed"`
	Failed int          `json:"failed"`
	Files  []testedFile `json:"files"`
}

// A testedFile is a fixture that was run, or could not be.
type testedFile struct {
	File     string            `json:"file"`
	Problems rules.Problems    `json:"problems,omitempty"` // of the fixture or of its rules
	Tests    []ruletest.Result `json:"tests,omitempty"`
}

type testFlags struct {
	rules   string
	pattern string
	verbose bool
	config  string
	delay   time.Duration // how long a request is held by default
	run     *regexp.Regexp
	instead *rules.Snapshot // rules to use; nil: those that the tests name

	entitlements string // file of numbers of limits
	table        rules.Entitlements
}

func newRulesTestCommand(a *app) *cobra.Command {
	var flags testFlags
	c := &cobra.Command{
		Use:   "test FILE|DIR...",
		Short: "Run tests of rules",
		Long: `Run tests of rules: requests at given times, and the expected decisions. Time is virtual
and the store is in memory, so a month takes milliseconds. In a directory, all *.yaml,
*.yml and *.json files are run.

    rules: ../rules.yaml
    tests:
      - name: five attempts a minute
        with: {attributes: {method: POST, path: /login, account: ann}}
        steps:
          - {call: {}, times: 5, expect: {allowed: true}}
          - {call: {}, expect: {allowed: false, rule: login-per-account, retry_after: 1m}}
          - {at: 1m, call: {}, expect: {allowed: true}}

docs/how-to/rules-testing.md describes the format.

Exit status: 0 if all tests pass, 1 if not.`,
		Example: `  penstock rules test tests/
  penstock rules test --run 'login|reset' -v tests/login.yaml
  penstock rules test --rules candidate.yaml tests/       # before deploying them`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if flags.run, err = regexp.Compile(flags.pattern); err != nil {
				return misused("--run: %v", err)
			}
			if flags.delay, err = a.maxDelay(flags.config); err != nil {
				return err
			}
			if flags.table, err = a.entitlementFile(flags.entitlements); err != nil {
				return err
			}
			return a.testRules(c.Context(), args, flags)
		},
	}
	addMaxDelayFlag(c.Flags(), &flags.config)
	c.Flags().StringVar(&flags.rules, "rules", "", "test these rules (`file or directory`) instead of those that the tests name")
	addEntitlementsFlag(c, &flags.entitlements)
	c.Flags().StringVar(&flags.pattern, "run", "", "run only tests whose name matches the `regexp`")
	c.Flags().BoolVarP(&flags.verbose, "verbose", "v", false, "also list tests that pass")
	return c
}

func (a *app) testRules(ctx context.Context, args []string, flags testFlags) error {
	if flags.rules != "" {
		var err error
		if flags.instead, err = a.compileRules(ctx, flags.rules); err != nil {
			return answered(err)
		}
	}
	var all testReport
	broken := false
	for _, arg := range args {
		paths, err := fixturesAt(arg)
		if err != nil {
			return err
		}
		for _, path := range paths {
			tested, err := a.testFile(ctx, path, flags)
			if err != nil {
				return err
			}
			all.add(tested)
			broken = broken || len(tested.Problems) > 0
			if !a.json() {
				a.tellTested(tested, flags.verbose)
			}
		}
	}
	if a.json() {
		if err := a.writeJSON(all); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%s passed, %d failed\n", spelling.Count(all.Passed, "test"), all.Failed)
	switch {
	case broken || all.Failed > 0:
		return exitWithNo(nil)
	case all.Passed == 0:
		return exitWithNo(fmt.Errorf("no test name matches %q", flags.pattern))
	}
	return nil
}

func (t *testReport) add(file testedFile) {
	t.Files = append(t.Files, file)
	for _, r := range file.Tests {
		if len(r.Failures) > 0 {
			t.Failed++
		} else {
			t.Passed++
		}
	}
}

// fixturesAt returns the test files at a path.
func fixturesAt(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return []string{path}, nil // a file, or missing: reading it reports that
	}
	var paths []string
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() && !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			paths = append(paths, filepath.Join(path, name))
		}
	}
	if len(paths) == 0 {
		return nil, misused("%s has no *.yaml, *.yml or *.json", path)
	}
	return paths, nil
}

func (a *app) testFile(ctx context.Context, path string, flags testFlags) (testedFile, error) {
	tested := testedFile{File: path}
	fixture, err := readFixture(path)
	if err == nil {
		err = a.runFixture(ctx, path, fixture, flags, &tested)
	}
	if problems, ok := errors.AsType[rules.Problems](err); ok {
		tested.Problems, err = problems, nil
	}
	return tested, err
}

func readFixture(path string) (*ruletest.Fixture, error) {
	text, err := config.ReadFile(path, ruletest.MaxFixture)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, misused("read the tests: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the tests: %w", err)
	}
	return ruletest.Parse(path, text)
}

func (a *app) runFixture(ctx context.Context, path string, fixture *ruletest.Fixture, flags testFlags, tested *testedFile) (err error) {
	snapshot := flags.instead
	if snapshot == nil {
		if snapshot, err = a.rulesOf(ctx, path, fixture); err != nil {
			return err
		}
	}
	tested.Tests, err = fixture.Run(ctx, ruletest.Options{
		Rules:        snapshot,
		Entitlements: flags.table,
		NewStore:     func() (ruletest.Store, error) { return memstore.New(memstore.Options{}) },
		Run:          flags.run,
		MaxDelay:     flags.delay,
	})
	return err
}

// rulesOf returns the rules that a fixture names, relative to the fixture.
func (a *app) rulesOf(ctx context.Context, path string, fixture *ruletest.Fixture) (*rules.Snapshot, error) {
	from := fixture.Rules
	if from == "" {
		return nil, rules.Problems{{Position: rules.Position{File: path}, Message: "rules is missing", Hint: "as in rules: ../rules.yaml, or give --rules"}}
	}
	if !filepath.IsAbs(from) {
		from = filepath.Join(filepath.Dir(path), from)
	}
	snapshot, err := a.compileRules(ctx, from)
	if _, mistaken := errors.AsType[rules.Problems](err); err != nil && !mistaken {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return snapshot, err
}

func (a *app) tellTested(file testedFile, verbose bool) {
	for _, p := range file.Problems {
		fmt.Fprintln(a.stdout, p)
	}
	calls, good := 0, len(file.Problems) == 0
	for _, r := range file.Tests {
		calls += r.Calls
		good = good && len(r.Failures) == 0
		switch {
		case len(r.Failures) > 0:
			fmt.Fprintf(a.stdout, "--- FAIL %s (%v)\n", r.Name, r.Position)
		case verbose:
			fmt.Fprintf(a.stdout, "--- ok   %s (%s)\n", r.Name, spelling.Count(r.Calls, "call"))
		}
		for i := range r.Failures {
			fmt.Fprintln(a.stdout, &r.Failures[i])
		}
	}
	verdict := "FAIL"
	if good {
		verdict = "ok"
	}
	fmt.Fprintf(a.stdout, "%-4s %s: %s, %s\n", verdict, file.File, spelling.Count(len(file.Tests), "test"), spelling.Count(calls, "call"))
}

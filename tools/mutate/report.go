package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// A report is what the sample of one package gave.
type report struct {
	Package string  `json:"package"`
	Seed    string  `json:"seed"`
	Limit   string  `json:"limit"`
	Go      string  `json:"go"`
	Mutants int     `json:"mutants"` // of the package; the sample is from them
	Sample  int     `json:"sample"`
	Score   float64 `json:"score"` // killed or timed out, of the sample, in percent

	Killed       int `json:"killed"`
	TimedOut     int `json:"timed_out"`
	Survived     int `json:"survived"`
	NotCovered   int `json:"not_covered"`
	NotCompiling int `json:"not_compiling"` // replaced, as are:
	Equivalent   int `json:"equivalent"`

	LeftOut     int      `json:"left_out"`               // survivors for which not all covering tests were run
	FailedTests []string `json:"failed_tests,omitempty"` // that fail without any change
	Unneeded    []string `json:"unneeded,omitempty"`     // tests that kill nothing that the others do not kill; only with -all

	Survivors []*trial `json:"survivors"` // survived or not covered
	Unstable  []*trial `json:"unstable,omitempty"`

	all    bool
	trials []*trial
}

func newReport(t *target, o *options, mutants int) *report {
	return &report{Package: t.ImportPath, Seed: o.seed, Limit: o.limit.String(), Go: runtime.Version(), Mutants: mutants, all: o.all}
}

func (r *report) add(t *trial) {
	counter := map[result]*int{
		killed: &r.Killed, timedOut: &r.TimedOut, survived: &r.Survived, notCovered: &r.NotCovered,
		notCompiling: &r.NotCompiling, equivalent: &r.Equivalent,
	}[t.Result]
	*counter++
	if t.Result == notCompiling || t.Result == equivalent {
		return
	}
	r.Sample++
	r.trials = append(r.trials, t)
	if t.Result == survived || t.Result == notCovered {
		r.Survivors = append(r.Survivors, t)
	}
	if t.Result == survived && t.LeftOut > 0 {
		r.LeftOut++
	}
	if len(t.Unstable) > 0 {
		r.Unstable = append(r.Unstable, t)
	}
}

func (r *report) finish(c *coverage) {
	if r.Sample > 0 {
		r.Score = float64(1000*(r.Killed+r.TimedOut)/r.Sample) / 10
	}
	r.FailedTests = c.failed
	if r.all {
		r.Unneeded = unneeded(c.tests, r.trials)
	}
}

// unneeded returns tests without which the others still kill all mutants that are killed, the most expensive first.
func unneeded(tests []testRun, trials []*trial) (names []string) {
	killers := map[int]map[string]bool{}
	for i, t := range trials {
		if t.Result == killed {
			killers[i] = map[string]bool{}
			for _, test := range t.By {
				killers[i][test] = true
			}
		}
	}
	for _, test := range slices.Backward(tests) {
		needed := false
		for tests := range maps.Values(killers) {
			needed = needed || len(tests) == 1 && tests[test.Test]
		}
		if needed {
			continue
		}
		names = append(names, test.Test)
		for tests := range maps.Values(killers) {
			delete(tests, test.Test)
		}
	}
	return names
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d of %d mutants, seed %s\n\n", r.Package, r.Sample, r.Mutants, r.Seed)
	printTable(out, []*report{r})
	for _, test := range r.FailedTests {
		fmt.Fprintf(out, "note: %s fails by itself without any change, so it was not used\n", test)
	}
	if r.LeftOut > 0 {
		fmt.Fprintf(out, "note: for %d of the survivors, only the cheapest covering tests were run\n", r.LeftOut)
	}
	for _, t := range r.Unstable {
		fmt.Fprintf(out, "note: %s:%d: %s failed, then passed, with the same mutant\n", t.File, t.Line, strings.Join(t.Unstable, " or "))
	}
	for _, t := range r.Survivors {
		fmt.Fprintf(out, "\n%s:%d:%d %s: %s, %s", t.File, t.Line, t.Column, cmp.Or(t.Function, "outside functions"), t.Kind, t.Result)
		if t.Result == survived && t.Tests > 0 {
			fmt.Fprintf(out, " by %d of %d covering tests", t.Tests-t.LeftOut, t.Tests)
		}
		fmt.Fprintf(out, "\n%s\n", t.Diff)
	}
	if len(r.Unneeded) > 0 {
		fmt.Fprintf(out, "\nEach of these mutants is killed without these tests, too:\n")
		for _, test := range r.Unneeded {
			fmt.Fprintf(out, "\t%s\n", test)
		}
	}
	fmt.Fprintln(out)
}

func printTable(out io.Writer, reports []*report) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "package\tscore\tsample\tkilled\ttimed out\tsurvived\tnot covered\treplaced: not compiling\tequivalent\t")
	for _, r := range reports {
		fmt.Fprintf(table, "%s\t%.1f %%\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", r.Package, r.Score, r.Sample,
			r.Killed, r.TimedOut, r.Survived, r.NotCovered, r.NotCompiling, r.Equivalent)
	}
	_ = table.Flush()
}

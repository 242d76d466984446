// Command mutate measures how many faults the tests of a package notice. It changes the package in one place at a time,
// runs the tests that cover the place, and reports the changes (mutants) that no test noticed.
//
// It is kept out of the product's module because only developers run it; `make mutants` does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const help = `usage: mutate [flags] PACKAGE...

mutate changes a package in one place at a time and runs the tests that cover the place. A change that no test notices
survives: it shows what the tests do not check. Run it in the module of the packages:

	go -C tools build -o ../bin/mutate ./mutate
	nice bin/mutate -n 150 ./algorithm ./engine

The sample: all mutants of the package are ranked by a hash of the seed, the function, the kind of change, the changed
code and its occurrence in the function; the first N that compile are the sample. So the same seed and the same source
give the same mutants. A change of the source replaces only the mutants in the changed expressions; moving a function
to another file, or the package to another folder, replaces none.

The tests: those of the package itself, as 'go test PACKAGE' runs them; tests of other packages are not run. Each test
runs once by itself to see what it covers and how long it takes. For a mutant, the tests that cover its place run,
the cheapest first, as many as need at most half the limit; the results say how many were left out. A test that fails
runs once more by itself: only one that fails twice kills. Code outside functions counts as covered by all tests.

The limit (60s) is the time that a mutant's tests use or sleep. Time in which they wait for a processor does not
count, so a busy machine does not kill mutants. Tests are ended sooner, after a sixth of the limit and ten times what
they take without any change. The limit of memory is 4 GiB.

Results are appended to a file below -state, one for each state of the package's test binary. If mutate is stopped and
started again, it continues. -fresh starts again, for instance after a change of testdata.

Results:
	killed      a test failed
	timed out   the tests reached the limit; counts as killed in the score
	survived    all tests passed
	not covered no test runs the place; counts as survived in the score
Mutants that do not compile, or that compile to the same program, are replaced by the next of the ranking.

Exit status: 0 if all mutants were run, whatever their results; 1 on errors, and if it was stopped.

Flags:
`

// options are what the command line says.
type options struct {
	n        int
	seed     string
	limit    time.Duration
	stateDir string
	fresh    bool
	all      bool
	list     bool
	json     bool
	packages []string
}

func main() {
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		if ctx.Err() != nil {
			err = errors.New("stopped; run it again to continue")
		}
		fmt.Fprintf(os.Stderr, "mutate: %v\n", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.n, "n", 150, "mutants of each package; 0: all")
	flags.StringVar(&o.seed, "seed", "1", "seed of the sample")
	flags.DurationVar(&o.limit, "limit", 60*time.Second, "time that the tests of a mutant may use or sleep")
	flags.StringVar(&o.stateDir, "state", "bin/mutants", "directory of the results")
	flags.BoolVar(&o.fresh, "fresh", false, "forget the saved results of these packages")
	flags.BoolVar(&o.all, "all", false, "run all covering tests even after one failed, to see which tests are needed")
	flags.BoolVar(&o.list, "list", false, "list the ranking with diffs, and run nothing")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.packages = flags.Args()
	if len(o.packages) == 0 {
		return nil, errors.New("no package given, for instance ./algorithm (mutate -h explains)")
	}
	if o.n < 0 {
		return nil, fmt.Errorf("invalid -n %d: must be 0 (all) or more", o.n)
	}
	if o.limit < time.Second {
		return nil, fmt.Errorf("invalid -limit %v: must be 1s or more", o.limit)
	}
	return o, nil
}

func run(ctx context.Context, o *options) error {
	targets, err := listTargets(ctx, o.packages)
	if err != nil {
		return err
	}
	var reports []*report
	for _, t := range targets {
		mutants, err := t.mutants(o.seed)
		if err != nil {
			return err
		}
		if o.list {
			for _, m := range mutants[:sampleSize(o.n, len(mutants))] {
				fmt.Printf("%s %s\n%s\n", m.position(t.Dir), m.Kind, m.Diff)
			}
			continue
		}
		r, err := runTarget(ctx, o, t, mutants)
		if err != nil {
			return fmt.Errorf("%s: %w", t.ImportPath, err)
		}
		if reports = append(reports, r); !o.json {
			r.print(os.Stdout)
		}
	}
	if o.json {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(reports)
	}
	if len(reports) > 1 {
		printTable(os.Stdout, reports)
	}
	return nil
}

func sampleSize(n, available int) int {
	if n == 0 {
		return available
	}
	return min(n, available)
}

// Command flaky finds tests that fail by chance: it runs each of them many times on a busy machine. scripts/flaky
// builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const help = `usage: scripts/flaky [flags] [PACKAGE...]

flaky finds tests that fail by chance. It keeps the processors busy with loops, so that every test is slow and is
interrupted anywhere, and runs the tests of each package ten times. Without packages it takes all of the modules .,
bench and tools; a package of bench or tools is named by its folder, such as ./tools/lint. Folders are relative to the
root of the repository.

	scripts/flaky                       # everything; many hours
	scripts/flaky -list                 # the order of the packages, and why
	scripts/flaky -n 100 ./engine       # one package more often
	scripts/flaky -flags "-race -short" ./memstore
	scripts/flaky -once                 # the whole suite ('make test') once beside the busy loops

The order: packages that failed before, then those whose tests start servers or programs, then those that use the
network or real time, then the others.

Each run of a package is saved below -state, so that a command that was stopped continues where it was, and a higher -n
adds runs. When the package or its tests change, its runs start again, because its test binary is another. Changes of
files that the tests only read do not count; -fresh starts again.

The output of a run that failed is saved beside, and the summary names it. A test that fails once is not reliable: find
out whether the test or the product is wrong. More runs that pass prove nothing.

Exit status: 0 if all packages have N runs and none failed; 1 if a run failed; 2 on errors, and if it was stopped.

Flags:
`

type options struct {
	n        int
	busy     int
	parallel int
	stateDir string
	flags    []string
	timeout  time.Duration
	fresh    bool
	once     bool
	list     bool
	packages []string
}

func main() {
	if os.Getenv(loopVariable) != "" {
		loop()
	}
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		if err = run(ctx, o); ctx.Err() != nil {
			err = errors.New("stopped; run it again to continue")
		}
	}
	switch {
	case errors.Is(err, errFailed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintf(os.Stderr, "flaky: %v\n", err)
		os.Exit(2)
	}
}

// errFailed says that a test failed, which the summary has said already.
var errFailed = errors.New("tests failed")

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("flaky", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.n, "n", 10, "runs of each package")
	flags.IntVar(&o.busy, "busy", 8, "busy loops")
	flags.IntVar(&o.parallel, "p", 1, "packages at a time")
	flags.StringVar(&o.stateDir, "state", "bin/flaky-runs", "directory of the runs")
	goFlags := flags.String("flags", "", "further flags for building and running, such as \"-race -short\"")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Hour, "time limit of one run of a package")
	flags.BoolVar(&o.fresh, "fresh", false, "forget the saved runs of these packages")
	flags.BoolVar(&o.once, "once", false, "run make test once instead")
	flags.BoolVar(&o.list, "list", false, "list the packages in their order, with the reason, and run nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.flags, o.packages = strings.Fields(*goFlags), flags.Args()
	for _, count := range []struct {
		name       string
		value, min int
	}{{"n", o.n, 1}, {"busy", o.busy, 0}, {"p", o.parallel, 1}} {
		if count.value < count.min || count.value > 10_000 {
			return nil, fmt.Errorf("invalid -%s %d: must be from %d to 10000", count.name, count.value, count.min)
		}
	}
	if o.once && (len(o.packages) > 0 || len(o.flags) > 0) {
		return nil, errors.New("-once runs make test as it is: it takes no packages and no -flags")
	}
	return o, nil
}

func run(ctx context.Context, o *options) error {
	if err := os.MkdirAll(o.stateDir, 0o777); err != nil {
		return err
	}
	if o.once {
		return runSuite(ctx, o)
	}
	packages, err := listPackages(ctx, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, p := range packages {
			fmt.Printf("%-40s %s\n", p.name, p.reason)
		}
		return nil
	}
	if o.fresh {
		for _, p := range packages {
			if err := p.forget(); err != nil {
				return err
			}
		}
	}
	stop, err := startLoops(o.busy)
	if err != nil {
		return err
	}
	defer stop()
	return runPackages(ctx, o, packages)
}

// Command bench measures Penstock beside other limiters, in one run on one machine. See --help.
//
// It is a separate module so that the peers never become dependencies of the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/doors"
	"github.com/penstock-io/penstock/bench/envoy"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/bench/section"
)

// roles are what child processes of this program do.
var roles = map[string]func(args []string) error{limiter.Role: limiter.Serve, doors.Role: doors.Serve, envoy.Role: envoy.Serve}

func main() {
	lab.ServeIfChild(roles)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// sections are the benchmarks, in the order in which they run.
var sections = []struct {
	name    string
	measure func(*lab.Bench, workSizes) report.Section
}{
	{"memory", ofLimiters(section.Memory)},
	{"keys", ofLimiters(section.Keys)},
	{"huge", ofLimiters(section.Huge)},
	{"scale", ofLimiters(section.Scale)},
	{"redis", ofLimiters(section.Redis)},
	{"latency", ofLimiters(section.Latency)},
	{"hot", ofLimiters(section.Hot)},
	{"guards", ofLimiters(section.Guards)},
	{"rules", ofLimiters(section.Rules)},
	{"doors", func(b *lab.Bench, s workSizes) report.Section { return doors.Measure(b, s.doorsCell) }},
	{"envoy", func(b *lab.Bench, s workSizes) report.Section { return envoy.Measure(b, s.envoyKeys, s.envoyCell) }},
}

func ofLimiters(measure func(*lab.Bench, section.Sizes) report.Section) func(*lab.Bench, workSizes) report.Section {
	return func(b *lab.Bench, s workSizes) report.Section { return measure(b, s.Sizes) }
}

func benchmarks() (names []string) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

// ordinary are the benchmarks that any machine can run.
func ordinary() []string {
	return slices.DeleteFunc(benchmarks(), func(name string) bool { return name == "huge" })
}

func measure(ctx context.Context, name string, o options, stderr *os.File) (report.Section, error) {
	for _, s := range sections {
		if s.name == name {
			return lab.Run(ctx, name, o.repeat, stderr, func(b *lab.Bench) report.Section { return s.measure(b, o.sizes) })
		}
	}
	return report.Section{}, fmt.Errorf("no benchmark is called %q", name)
}

// resultsDir holds the saved results, in the repository.
const resultsDir = "bench/results"

// run runs the selected benchmarks and prints the results. It also prints and saves the results before an error,
// because a benchmark is long.
func run(ctx context.Context, o options, stdout io.Writer, stderr *os.File) error {
	if o.readme {
		return writeDocuments("..")
	}
	r := report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: report.Commit(), Machine: report.ThisMachine(),
		Quick: o.quick, Repeat: o.repeat,
	}
	var failed error
	for _, name := range o.only {
		section, err := measure(ctx, name, o, stderr)
		if err != nil {
			failed = err
			break
		}
		r.Sections = append(r.Sections, section)
		if o.save {
			failed = errors.Join(failed, r.Save(filepath.Join("..", resultsDir)))
		}
	}
	if o.save {
		failed = errors.Join(failed, writeDocuments(".."))
	}
	write := r.Text
	if o.output == "json" {
		write = r.JSON
	}
	return errors.Join(failed, write(stdout))
}

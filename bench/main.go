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

	"github.com/penstock-io/penstock/bench/atomicity"
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
	if err == nil {
		o.bench.Context, o.bench.Stderr = ctx, os.Stderr
		err = run(o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// sections are the benchmarks, in the order in which they run.
var sections = []struct {
	name    string
	measure func(*lab.Bench) report.Section
}{
	{"memory", section.Memory},
	{"keys", section.Keys},
	{"huge", section.Huge},
	{"scale", section.Scale},
	{"redis", section.Redis},
	{"latency", section.Latency},
	{"hot", section.Hot},
	{"guards", section.Guards},
	{"rules", section.Rules},
	{"doors", doors.Measure},
	{"envoy", envoy.Measure},
	{"atomicity", atomicity.Measure},
}

func benchmarks() (names []string) {
	for _, s := range sections {
		names = append(names, s.name)
	}
	return names
}

// ordinary are the benchmarks that run unless others are asked for: huge needs a large machine, and atomicity is not
// about speed.
func ordinary() []string {
	return slices.DeleteFunc(benchmarks(), func(name string) bool { return name == "huge" || name == "atomicity" })
}

func measure(b lab.Bench, name string) (report.Section, error) {
	b.Name = name
	return lab.Run(b, sections[slices.Index(benchmarks(), name)].measure)
}

// resultsDir holds the saved results, in the repository.
const resultsDir = "bench/results"

// run runs the selected benchmarks and prints the results. It also prints and saves the results before an error,
// because a benchmark is long.
func run(o options, stdout io.Writer) error {
	if o.readme {
		return writeDocuments("..")
	}
	r := report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: report.Commit(), Machine: report.ThisMachine(),
		Quick: o.quick, Repeat: o.bench.Repeat,
	}
	var failed error
	for _, name := range o.only {
		section, err := measure(o.bench, name)
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

// Command bench measures Penstock beside other limiters, in one run on one machine. See --help.
//
// It is a separate module so that the peers never become dependencies of the product.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
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

// sections are the benchmarks, in the order in which they run, with their line of the help.
var sections = []struct {
	name    string
	measure func(*lab.Bench) report.Section
	help    string
}{
	{"memory", section.Memory, "nanoseconds per decision in process memory: one hot key, a million keys uniform and zipf, and all denied"},
	{"keys", section.Keys, "bytes per key, and the time of a full garbage collection, at ten million keys"},
	{"huge", section.Huge, "500 million keys in one process, or -keys; needs 20 GiB, and runs only if it is asked for"},
	{"scale", section.Scale, "the cost of a decision by limits of a request, keys, rules and nodes, as curves"},
	{"redis", section.Redis, "decisions a second, latency and server CPU with 1, 64 and 512 callers, and Redis memory per key"},
	{"latency", section.Latency, "calls on a fixed schedule at half of the saturation rate, and one script against four round trips"},
	{"hot", section.Hot, "exact decisions, cached denials and permits taken ahead; one hot key on three nodes"},
	{"guards", section.Guards, "what a call with a penalty, an id or a reservation makes a store remember, and what it costs a decision"},
	{"rules", section.Rules, "finding the rules of a call among 10, 1,000 and 100,000; bytes per rule, and the time to compile them"},
	{"doors", doors.Measure, "the gateway beside other proxies, the decision API, and each place where an application can be limited;\n" +
		"needs wrk, nginx, haproxy and caddy"},
	{"envoy", envoy.Measure, "the rate limit service for Envoy beside envoyproxy/ratelimit"},
	{"atomicity", atomicity.Measure, "what a limit of 10 admits when up to 100 callers arrive at the same instant, by how it is counted in\n" +
		"Redis; runs only if it is asked for"},
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

func measure(b lab.Bench, name string) (s report.Section, err error) {
	b.Name = name
	err = b.Run(func(b *lab.Bench) { s = sections[slices.Index(benchmarks(), name)].measure(b) })
	return s, err
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

// help is formatted with the list of sections.
const help = `bench measures Penstock beside other limiters, in one run on one machine.

%s
Contestants take turns (A B C A B C ...) and the medians of the repeats are shown, because
a machine is faster at one moment than at the next. For the same reason only the ratios in
brackets say anything: above 1 is better than the reference row. The last table holds the
goals. redis-server is started here and ended; nothing else is contacted.

Examples:
  bench                            everything; takes many minutes, on an otherwise idle machine
  bench -quick                     small sizes, about a minute: does it all work?
  bench -only memory -repeat 9     one benchmark, with more repeats
  bench -only redis,latency -o json > redis.json
  bench -only memory -save         one benchmark, saved, and the tables of the README written again

Flags:
`

type options struct {
	only   []string
	quick  bool
	output string
	save   bool // into resultsDir, and write the documents
	readme bool // only write the documents
	bench  lab.Bench
}

const (
	fullRepeat, quickRepeat = 5, 3
	quickDivisor            = 20
)

func parse(args []string, usage io.Writer) (options, error) {
	o := options{bench: lab.Bench{Divisor: 1}}
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		var list strings.Builder
		for _, s := range sections {
			fmt.Fprintf(&list, "  %-9s  %s\n", s.name, strings.ReplaceAll(s.help, "\n", "\n"+strings.Repeat(" ", 13)))
		}
		fmt.Fprintf(usage, help, list.String())
		flags.PrintDefaults()
	}
	flags.StringVar(&only, "only", strings.Join(ordinary(), ","), "`benchmarks` to run, comma-separated")
	flags.IntVar(&o.bench.HugeKeys, "keys", 500_000_000, "`keys` of the benchmark huge")
	flags.BoolVar(&o.quick, "quick", false, "small sizes and short cells")
	flags.StringVar(&o.output, "o", "text", "output `format`: text or json")
	flags.IntVar(&o.bench.Repeat, "repeat", 0, fmt.Sprintf("interleaved repeats per figure (default %d, quick %d)", fullRepeat, quickRepeat))
	flags.BoolVar(&o.save, "save", false, "save each section in "+resultsDir+" and write the tables of the README and the docs from all saved results")
	flags.BoolVar(&o.readme, "readme", false, "measure nothing; write the tables of the README and the docs from the saved results")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(benchmarks(), name) {
			return o, fmt.Errorf("-only %q: %q is not one of %s", only, name, strings.Join(benchmarks(), ", "))
		}
		o.only = append(o.only, name)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	case o.output != "text" && o.output != "json":
		return o, fmt.Errorf("-o %q: want text or json", o.output)
	case o.save && o.quick:
		return o, errors.New("-save with -quick: a quick run shows that everything works, not how fast it is")
	case o.bench.HugeKeys < 1000:
		return o, fmt.Errorf("-keys %d: want at least 1000", o.bench.HugeKeys)
	case o.bench.Repeat < 0:
		return o, fmt.Errorf("-repeat %d: want at least 1", o.bench.Repeat)
	}
	repeat := fullRepeat
	if o.quick {
		o.bench.Divisor, repeat = quickDivisor, quickRepeat
	}
	o.bench.Repeat = cmp.Or(o.bench.Repeat, repeat)
	return o, nil
}

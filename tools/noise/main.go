// Command noise says whether benchmarks of two builds differ by more than noise. scripts/noise builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

const help = `usage: scripts/noise [flags] BASE NEW

noise says whether benchmarks of two builds differ by more than noise. BASE and NEW are revisions of git, or directories
with a working tree, relative to the root of this one, which is ".".

	scripts/noise main . -bench '^BenchmarkAllow$'
	scripts/noise -package ./memstore -bench 'Update' -pairs 30 HEAD~3 HEAD

The tests of the package are built once for each. Then they take turns, and the order changes with every turn: BASE,
NEW, and BASE again as a control. Each turn gives the ratios NEW/BASE and BASE again/BASE. The table has the median of each,
and its exact 95 % interval (sign test, so no assumption is made about the noise):

	within noise  the interval ends at 1.02 or below
	slower        the interval lies above 1.02
	faster        the interval lies below 1/1.02
	unclear       the interval is too wide: use more pairs, or a quieter machine

A control that is slower or faster shows that something but the code differs, so nothing can be said of this benchmark.

Exit status: 0 if every benchmark is within noise or faster; 1 if one is slower; 2 on errors; 3 if one is unclear and
none is slower.

Flags:
`

type options struct {
	base, new string
	pkg       string
	bench     string
	benchtime string
	metric    string
	pairs     int
	noise     float64
}

func main() {
	o, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	status := 2
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		status, err = run(ctx, o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "noise: %v\n", err)
	}
	os.Exit(status)
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("noise", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), help)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.pkg, "package", ".", "package of the benchmarks")
	flags.StringVar(&o.bench, "bench", "", "regular expression of the benchmarks, as of go test; required")
	flags.StringVar(&o.benchtime, "benchtime", "0.5s", "time of each benchmark in each turn, as of go test")
	flags.StringVar(&o.metric, "metric", "ns/op", "unit of the results to compare, of which less is better, such as B/op")
	flags.IntVar(&o.pairs, "pairs", 20, "pairs of measurements")
	flags.Float64Var(&o.noise, "noise", 1.02, "ratio up to which a difference counts as noise")
	var builds []string
	for len(args) > 0 { // flags may follow the builds
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) > 0 {
			builds, args = append(builds, args[0]), args[1:]
		}
	}
	if len(builds) != 2 {
		return nil, fmt.Errorf("%d builds given, want 2: BASE NEW (scripts/noise -h explains)", len(builds))
	}
	o.base, o.new = builds[0], builds[1]
	if o.bench == "" {
		return nil, errors.New("-bench is required, for instance -bench '^BenchmarkAllow$'")
	}
	if _, err := regexp.Compile(o.bench); err != nil {
		return nil, fmt.Errorf("invalid -bench %q: %w", o.bench, err)
	}
	if o.pairs < minPairs || o.pairs > 1000 {
		return nil, fmt.Errorf("invalid -pairs %d: must be from %d, for an interval of 95 %%, to 1000", o.pairs, minPairs)
	}
	if !(o.noise > 1 && o.noise < 2) {
		return nil, fmt.Errorf("invalid -noise %v: must be a ratio between 1 and 2", o.noise)
	}
	return o, nil
}

func run(ctx context.Context, o *options, out io.Writer) (status int, err error) {
	dir, err := os.MkdirTemp("", "noise")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(dir)
	var builds [2]*build
	for i, of := range []string{o.base, o.new} {
		if builds[i], err = prepare(ctx, o, of, fmt.Sprintf("%s/%d", dir, i)); err != nil {
			return 2, err
		}
	}
	m, err := measureAll(ctx, o, builds[0], builds[1])
	if err != nil {
		return 2, err
	}
	fmt.Fprintf(out, "%s of %s: %d pairs of %s; base %s, new %s\n\n", o.metric, o.pkg, o.pairs, o.benchtime, o.base, o.new)
	return m.print(out, o.noise), nil
}

// measurements are what each benchmark gave in each turn. The order of the names is that of the output.
type measurements struct {
	names  []string
	base   map[string][]float64
	change map[string][]float64
	again  map[string][]float64
}

// measureAll lets the builds take turns.
func measureAll(ctx context.Context, o *options, base, change *build) (*measurements, error) {
	m := &measurements{base: map[string][]float64{}, change: map[string][]float64{}, again: map[string][]float64{}}
	turns := []struct {
		build *build
		to    map[string][]float64
	}{{base, m.base}, {change, m.change}, {base, m.again}}
	for pair := range o.pairs {
		fmt.Fprintf(os.Stderr, "%s pair %d/%d\n", time.Now().Format(time.TimeOnly), pair+1, o.pairs)
		for i := range turns {
			turn := turns[order(pair)[i]]
			results, err := turn.build.measure(ctx, o)
			if err != nil {
				return nil, err
			}
			for _, r := range results {
				if !slices.Contains(m.names, r.name) {
					m.names = append(m.names, r.name)
				}
				turn.to[r.name] = append(turn.to[r.name], r.value)
			}
		}
	}
	for _, name := range m.names {
		if len(m.base[name]) != o.pairs || len(m.change[name]) != o.pairs {
			return nil, fmt.Errorf("%s: %d results of the base and %d of the new build, want %d of each", name, len(m.base[name]), len(m.change[name]), o.pairs)
		}
	}
	if len(m.names) == 0 {
		return nil, fmt.Errorf("no benchmark of %s matches %q and reports %s", o.pkg, o.bench, o.metric)
	}
	return m, nil
}

// order returns the order of the three measurements of a turn. Six turns have all orders.
func order(pair int) [3]int {
	return [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}}[pair%6]
}

// print writes the table, and returns the exit status.
func (m *measurements) print(out io.Writer, noise float64) (status int) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "benchmark\tbase\tnew\tnew/base\t95 % interval\tbase/base\t95 % interval\tverdict")
	for _, name := range m.names {
		change, control := medianInterval(ratios(m.change[name], m.base[name])), medianInterval(ratios(m.again[name], m.base[name]))
		v := judge(change, noise)
		text := string(v)
		if c := judge(control, noise); c == slower || c == faster {
			v, text = unclear, "unclear: the control is "+string(c)
		}
		switch {
		case v == slower:
			status = 1
		case v == unclear && status == 0:
			status = 3
		}
		fmt.Fprintf(table, "%s\t%.4g\t%.4g\t%.3f\t%.3f to %.3f\t%.3f\t%.3f to %.3f\t%s\n", strings.TrimPrefix(name, "Benchmark"),
			medianOf(m.base[name]), medianOf(m.change[name]),
			change.median, change.low, change.high, control.median, control.low, control.high, text)
	}
	_ = table.Flush()
	return status
}

func medianOf(values []float64) float64 { return medianInterval(values).median }

func ratios(values, base []float64) []float64 {
	r := make([]float64, len(values))
	for i := range values {
		switch {
		case values[i] == base[i]: // also 0 allocations
			r[i] = 1
		default:
			r[i] = values[i] / base[i]
		}
	}
	return r
}

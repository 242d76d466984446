package race

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Main runs the race as a program and prints its tables in Markdown. It returns flag.ErrHelp after printing the
// help.
func Main(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) (err error) {
	o, svgDir, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if o.Addr == "" {
		server, err := redistest.Launch(ctx)
		if err != nil {
			return fmt.Errorf("start a Redis server (or give --redis ADDR): %w", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		o.Addr = server.Addr
	}
	progress := report.Begin(stderr, "race", o.cells())
	defer progress.End()
	o.Progress = func(what string) { progress.Step("%s", what) }
	r, err := Run(ctx, o)
	if err != nil {
		return err
	}
	if svgDir != "" {
		if err := r.WriteSVGs(svgDir, o.Contention); err != nil {
			return err
		}
	}
	return r.WriteMarkdown(stdout, o.Callers, o.RoundTrips)
}

func parse(args []string, usage io.Writer) (o Options, svgDir string, err error) {
	o.Patience = 10 * time.Second
	flags := flag.NewFlagSet("atomicity", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error prints one line, not the whole help
	flags.StringVar(&o.Addr, "redis", "", "`address` of a Redis or Valkey to race on; empty starts one for the run")
	flags.IntVar(&o.Nodes, "nodes", 4, "independent clients, each with its own connection")
	flags.IntVar(&o.Trials, "trials", 20, "bursts per cell; one more, not counted, warms up")
	flags.IntVar(&o.Limit.Calls, "limit", 10, "calls allowed per window")
	flags.DurationVar(&o.Limit.Window, "window", time.Minute, "the window, longer than a burst may take")
	callers := flags.String("callers", "50,100", "callers released at once, a `list`")
	roundTrips := flags.String("rtt", "0,1ms,2ms", "round trips added between nodes and server, a `list`")
	contention := flags.String("contention", "2,5,10,20,50,100", "callers of the charts (at 1ms), a `list`")
	ways := flags.String("ways", "", "only these ways, a `list` of names; empty for all")
	flags.StringVar(&svgDir, "svg", "", "write the charts as SVG into this `directory`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintf(usage, helpText, waysHelp())
			flags.SetOutput(usage)
			flags.PrintDefaults()
		}
		return o, "", err
	}
	if flags.NArg() > 0 {
		return o, "", fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	var errs [4]error
	o.Callers, errs[0] = parseList("--callers", *callers, strconv.Atoi)
	o.RoundTrips, errs[1] = parseList("--rtt", *roundTrips, time.ParseDuration)
	o.Contention, errs[2] = parseList("--contention", *contention, strconv.Atoi)
	o.Ways, errs[3] = choose(*ways)
	return o, svgDir, errors.Join(errs[:]...)
}

func choose(list string) ([]Method, error) {
	all := append(Ways(), penstockWay)
	if list == "" {
		return all, nil
	}
	return parseList("--ways", list, func(name string) (Method, error) {
		i := slices.IndexFunc(all, func(w Method) bool { return w.Name == name })
		if i < 0 {
			return Method{}, errors.New("no such way")
		}
		return all[i], nil
	})
}

func parseList[T any](flagName, list string, parse func(string) (T, error)) ([]T, error) {
	var values []T
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		v, err := parse(part)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", flagName, part, err)
		}
		values = append(values, v)
	}
	return values, nil
}

// helpText is formatted with the ways.
const helpText = `What does a limit of 10 per minute admit when 50 callers arrive at the same
instant, from several processes? It depends on how the count is kept. This runs
the usual ways on a real Redis and counts what each caller was told.

Several clients ("nodes") connect to one server, each through a proxy that adds
a round trip. Callers wait at a barrier, are released together, and each charges
one call to the same key. Every trial uses a fresh key.

The ways:
%s
Reading the table:
  admitted        callers allowed: min–max (median) over the trials
  over            allowed above the limit, in the worst trial
  falsely denied  room left unused although callers asked, in the worst trial
  logged          members in the log afterwards; more than were admitted means
                  that denied callers were charged too
  trips           waits for the server, one after another, per call
  retries         further attempts, per call
  commands        what the server executed per call, inside scripts too
  p50, p99        from a caller's release to its answer

Flags:
`

func waysHelp() string {
	var b strings.Builder
	for _, w := range append(Ways(), penstockWay) {
		fmt.Fprintf(&b, "  %s\n      %s\n", w.Name, w.What)
	}
	return b.String()
}

// Command slidinglog compares Redis structures for an exact sliding-window log.
//
// It is a command of its own, not a Go benchmark, because what it measures is
// the CPU time and memory of the server, not of this process. Every structure
// is one Lua script taking the whole decision, and none is measured before all
// have given the same answers as a naive model on the same random traces.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/redis/rueidis"
)

const help = `slidinglog compares Redis structures for an exact sliding-window log.

The log admits a call of cost c iff the costs in (now-window, now] plus c do not
exceed the limit; a denied call writes nothing and is told when it would pass.
Four structures, each one Lua script (see scripts/): sorted set, stream, list of
packed elements, one packed string. An empty script shows what no structure saves.

A redis-server of its own is started on loopback and ended afterwards. First all
scripts must agree with a naive model; a difference ends the run. Then, per size:

  full    limit = entries: at each call the oldest entry leaves, one is admitted
  roomy   limit = 2 x entries: the same, well below the limit
  denied  limit = entries, the log is full: every call is denied
  costly  denied too: 3/7 of the entries have left, the call costs 10/13 of the limit

Examples:
  slidinglog                       the whole table, about a minute
  slidinglog -check                only the comparison with the model
  slidinglog -sizes 1000 -o json   another size, for a program to read

Flags:
`

type options struct {
	output    string
	sizes     []int
	repeats   int
	decisions int
	seed      uint64
	checkOnly bool
}

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slidinglog:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "slidinglog:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	var sizes string
	flags := flag.NewFlagSet("slidinglog", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprint(usage, help)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.output, "o", "text", "output `format`: text or json")
	flags.StringVar(&sizes, "sizes", "10,100,10000", "live `entries` per log, comma-separated")
	flags.IntVar(&o.repeats, "repeats", 5, "interleaved repeats per figure")
	flags.IntVar(&o.decisions, "decisions", 6000, "decisions per repeat")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the random traces")
	flags.BoolVar(&o.checkOnly, "check", false, "compare with the model and stop")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	if o.output != "text" && o.output != "json" {
		return o, fmt.Errorf("-o %q: want text or json", o.output)
	}
	if o.repeats < 1 || o.decisions < 1 {
		return o, fmt.Errorf("-repeats %d, -decisions %d: want at least 1", o.repeats, o.decisions)
	}
	for field := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > 100_000 {
			return o, fmt.Errorf("-sizes %q: %q is not a number from 1 to 100000", sizes, field)
		}
		o.sizes = append(o.sizes, n)
	}
	return o, nil
}

func run(ctx context.Context, o options, w io.Writer) (err error) {
	s, err := redistest.Launch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	client, err := connect(s.Addr)
	if err != nil {
		return err
	}
	defer client.Close()

	all, empty := structures(), floor()
	for i := range all {
		if err := all[i].load(ctx, client); err != nil {
			return err
		}
	}
	if err := empty.load(ctx, client); err != nil {
		return err
	}
	r := report{Seed: o.seed, Decisions: o.decisions, Repeats: o.repeats}
	if r.Redis, err = version(ctx, client); err != nil {
		return err
	}
	if r.Checked, err = check(ctx, client, all, o.seed); err != nil {
		return err
	}
	if !o.checkOnly {
		cells, err := measureAll(ctx, client, append(all, empty), o)
		if err != nil {
			return err
		}
		r.Rows = rows(cells)
	}
	if o.output == "json" {
		return r.json(w)
	}
	return r.text(w)
}

// connect opens a single pipelined connection: calls on one key keep their order.
func connect(addr string) (rueidis.Client, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		DisableCache:      true,
		AlwaysPipelining:  true,
		PipelineMultiplex: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return client, nil
}

// measureAll interleaves: each repeat visits every cell once, so that a slow
// phase of the machine falls on all of them.
func measureAll(ctx context.Context, client rueidis.Client, all []candidate, o options) ([]*cell, error) {
	var cells []*cell
	for _, size := range o.sizes {
		for _, m := range mixes() {
			for _, c := range all {
				e := newCell(c, size, m)
				if err := e.fill(ctx, client, o.seed); err != nil {
					return nil, err
				}
				cells = append(cells, e)
			}
		}
	}
	for _, e := range cells {
		if e.c.file == floor().file {
			continue // it keeps nothing
		}
		if err := e.weigh(ctx, client); err != nil {
			return nil, err
		}
	}
	for range o.repeats {
		for _, e := range cells {
			if err := e.measure(ctx, client, o.decisions); err != nil {
				return nil, err
			}
		}
	}
	return cells, nil
}

func version(ctx context.Context, client rueidis.Client) (string, error) {
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", fmt.Errorf("INFO server: %w", err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", fmt.Errorf("INFO server names no redis_version")
}

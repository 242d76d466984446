// Command atomicity compares the usual ways of keeping a limit in Redis under contention and shows which of them
// enforce it. See --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/race"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// help is formatted with the ways.
const help = `What does a limit of 10 per minute admit when 50 callers arrive at the same
instant, from several processes? It depends on how the count is kept. This runs
the usual ways on a real Redis and counts what each caller was told.

Four clients ("nodes") connect to one server, each through a proxy that adds a
round trip. Callers wait at a barrier, are released together, and each charges
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

// contention are the numbers of callers of the charts, over a round trip of 1 ms.
var contention = []int{2, 5, 10, 20, 50, 100}

func main() {
	addr := flag.String("redis", "", "`address` of a Redis or Valkey to race on; empty starts one for the run")
	svg := flag.String("svg", "", "write the charts as SVG into this `directory`")
	trials := flag.Int("trials", 20, "bursts per cell; one more, not counted, warms up")
	flag.Usage = func() {
		ways := ""
		for _, w := range race.Ways() {
			ways += fmt.Sprintf("  %s\n      %s\n", w.Name, w.What)
		}
		fmt.Fprintf(os.Stdout, help, ways)
		flag.CommandLine.SetOutput(os.Stdout)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *svg, max(*trials, 1), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "atomicity:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, addr, svg string, trials int, w io.Writer) (err error) {
	if addr == "" {
		server, err := redistest.Launch(ctx)
		if err != nil {
			return fmt.Errorf("start a Redis server (or give --redis ADDR): %w", err)
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		addr = server.Addr
	}
	var loads []race.Load
	for _, roundTrip := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond} {
		loads = append(loads, race.Load{Callers: 50, RoundTrip: roundTrip}, race.Load{Callers: 100, RoundTrip: roundTrip})
	}
	all := slices.Clone(loads)
	for _, callers := range contention {
		if l := (race.Load{Callers: callers, RoundTrip: time.Millisecond}); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	var cells []*race.Cell
	progress := report.Begin(os.Stderr, "atomicity", len(all)*len(race.Ways()))
	defer progress.End()
	for _, l := range all {
		for _, way := range race.Ways() {
			progress.Step("%s, %d callers, %v", way.Name, l.Callers, l.RoundTrip)
			cell, err := race.Run(ctx, addr, way, l, trials)
			if err != nil {
				return err
			}
			cells = append(cells, cell)
		}
	}
	version, err := redis.Info(addr, "server", "redis_version")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "One key, 10 per minute; 4 nodes; %d trials each; Redis %s.\n", trials, version)
	if svg != "" {
		if err := race.WriteCharts(svg, cells, contention, time.Millisecond); err != nil {
			return err
		}
	}
	return race.WriteTables(w, cells, loads)
}

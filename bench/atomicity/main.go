// Command atomicity compares the usual ways of keeping a limit in Redis under contention and shows which of them
// enforce it. See --help.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
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

func main() {
	addr := flag.String("redis", "", "`address` of a Redis or Valkey to race on; empty starts one for the run")
	trials := flag.Int("trials", 20, "bursts per cell; one more, not counted, warms up")
	flag.Usage = func() {
		list := ""
		for _, w := range ways {
			list += fmt.Sprintf("  %s\n      %s\n", w.name, w.what)
		}
		fmt.Fprintf(os.Stdout, help, list)
		flag.CommandLine.SetOutput(os.Stdout)
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	cells, err := lab.Run(lab.Bench{Context: ctx, Name: "atomicity", Stderr: os.Stderr}, func(b *lab.Bench) []*cell { return raceAll(b, *addr, max(*trials, 1)) })
	writeTables(os.Stdout, cells)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

// raceAll runs every way under every load: many callers over each network, and growing numbers over one.
func raceAll(b *lab.Bench, addr string, trials int) (cells []*cell) {
	server := lab.Redis{Server: &redistest.Server{Addr: addr}}
	if addr == "" {
		server = b.Redis()
	}
	fmt.Printf("One key, 10 per minute; %d nodes; %d trials each; Redis %s.\n", nodes, trials, server.Info("server", "redis_version"))
	for _, l := range []load{
		{50, 0}, {100, 0}, {50, 2 * time.Millisecond}, {100, 2 * time.Millisecond},
		{2, time.Millisecond}, {5, time.Millisecond}, {10, time.Millisecond}, {20, time.Millisecond}, {50, time.Millisecond}, {100, time.Millisecond},
	} {
		for _, w := range ways {
			cells = append(cells, race(b, server.Addr, w, l, trials))
		}
	}
	return cells
}

const legend = `admitted: min–max (median) over the trials. over, falsely denied: the worst trial.
logged: members left in the log (median). trips, retries, commands: per call.`

// writeTables prints one table per load, in Markdown.
func writeTables(w io.Writer, cells []*cell) {
	for len(cells) > 0 {
		l := cells[0].load
		lines := [][]string{{"way", "admitted", "over", "falsely denied", "logged", "trips", "retries", "commands", "p50", "p99"}}
		for ; len(cells) > 0 && cells[0].load == l; cells = cells[1:] {
			lines = append(lines, cells[0].row())
		}
		fmt.Fprintf(w, "\n**%d callers at once, %s of added round trip**\n\n", l.callers, millis(l.roundTrip))
		report.Align(w, lines)
	}
	fmt.Fprintf(w, "\n%s\n", legend)
}

func (c *cell) row() []string {
	p50, p99 := c.took[(len(c.took)-1)/2], millis(c.took[(len(c.took)*99+99)/100-1])
	if c.gaveUp > 0 {
		p99 += fmt.Sprintf(" (%d gave up)", c.gaveUp)
	}
	return []string{
		c.way, spread(c.admitted), orDash(c.over()), orDash(c.falselyDenied()), orDash(median(c.logged)),
		decimal(c.tripsPerCall), decimal(c.retriesPerCall), decimal(c.commandsPerCall), millis(p50), p99,
	}
}

func median(sorted []int) int { return sorted[(len(sorted)-1)/2] }

// spread returns the count if all trials agree, otherwise "min–max (median)".
func spread(sorted []int) string {
	least, most := slices.Min(sorted), slices.Max(sorted)
	if least == most {
		return strconv.Itoa(least)
	}
	return fmt.Sprintf("%d–%d (%d)", least, most, median(sorted))
}

func orDash(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

func decimal(x float64) string { return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") }

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

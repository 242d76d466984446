package race

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

var columns = []string{"way", "admitted", "over", "falsely denied", "logged", "trips", "retries", "commands", "p50", "p99"}

// row formats a cell. Over and falsely denied are those of the worst trial; trips, retries and commands are per
// request.
func (c Cell) row() []string {
	p99 := millis(c.P99US)
	if c.GaveUp > 0 {
		p99 += fmt.Sprintf(" (%d gave up)", c.GaveUp)
	}
	return []string{
		c.Way, c.Admitted.String(), orDash(c.OverAdmitted.Max), orDash(c.FalselyDenied.Max), orDash(c.Logged.Median),
		decimal(c.TripsPerCall), decimal(c.RetriesPerCall), decimal(c.CommandsPerCall), millis(c.P50US), p99,
	}
}

// String returns the count if all trials agree, otherwise "min–max (median)".
func (s Spread) String() string {
	if s.Min == s.Max {
		return strconv.Itoa(s.Min)
	}
	return fmt.Sprintf("%d–%d (%d)", s.Min, s.Max, s.Median)
}

func orDash(n int) string {
	if n == 0 {
		return "–"
	}
	return strconv.Itoa(n)
}

func decimal(x float64) string { return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0") }

// inMillis formats a setting, exactly as it was given.
func inMillis(us int64) string { return fmt.Sprintf("%g ms", float64(us)/1000) }

// millis formats a measurement, rounded to its precision.
func millis(us int64) string { return fmt.Sprintf("%.1f ms", float64(us)/1000) }

// group is the cells of one load, one per way.
type group struct {
	addedUS int64
	callers int
	cells   []Cell
}

func (r *Report) groups(callers []int, roundTrips []time.Duration) []group {
	var groups []group
	for _, d := range roundTrips {
		for _, n := range callers {
			g := group{addedUS: d.Microseconds(), callers: n}
			for _, c := range r.Cells {
				if c.AddedUS == g.addedUS && c.Callers == n {
					g.cells = append(g.cells, c)
				}
			}
			groups = append(groups, g)
		}
	}
	return groups
}

func (g group) title() string {
	return fmt.Sprintf("%d callers at once, %s of added round trip", g.callers, inMillis(g.addedUS))
}

// preamble says what was run, and the actual network delays.
func (r *Report) preamble() string {
	var wires []string
	for _, n := range r.Networks {
		wires = append(wires, fmt.Sprintf("%s → %.2f ms", inMillis(n.AddedUS), float64(n.MeasuredUS)/1000))
	}
	return fmt.Sprintf("One key, %d per %v; %d nodes; %d trials each; %s.\nAdded round trip → idle PING as measured: %s.",
		r.Limit, time.Duration(r.WindowMS)*time.Millisecond, r.Nodes, r.Trials, r.Server, strings.Join(wires, ", "))
}

const legend = `admitted: min–max (median) over the trials. over, falsely denied: the worst trial.
logged: members left in the log (median). trips, retries, commands: per call.`

// WriteMarkdown prints one table per load.
func (r *Report) WriteMarkdown(w io.Writer, callers []int, roundTrips []time.Duration) error {
	fmt.Fprintf(w, "%s\n", r.preamble())
	for _, g := range r.groups(callers, roundTrips) {
		fmt.Fprintf(w, "\n**%s**\n\n", g.title())
		fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), "---|"+strings.Repeat("--:|", len(columns)-1))
		for _, c := range g.cells {
			fmt.Fprintf(w, "| %s |\n", strings.Join(c.row(), " | "))
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", legend)
	return err
}

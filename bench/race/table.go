package race

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

const legend = `admitted: min–max (median) over the trials. over, falsely denied: the worst trial.
logged: members left in the log (median). trips, retries, commands: per call.`

// WriteTables prints one table per load, in Markdown.
func WriteTables(w io.Writer, cells []*Cell, loads []Load) error {
	for _, l := range loads {
		fmt.Fprintf(w, "\n**%d callers at once, %s of added round trip**\n\n", l.Callers, millis(l.RoundTrip))
		fmt.Fprintf(w, "| way | admitted | over | falsely denied | logged | trips | retries | commands | p50 | p99 |\n|---|%s\n", strings.Repeat("--:|", 9))
		for _, c := range cells {
			if c.Load == l {
				fmt.Fprintf(w, "| %s |\n", strings.Join(c.row(), " | "))
			}
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", legend)
	return err
}

func (c *Cell) row() []string {
	p99 := millis(c.P99)
	if c.GaveUp > 0 {
		p99 += fmt.Sprintf(" (%d gave up)", c.GaveUp)
	}
	return []string{
		c.Way, spread(c.Admitted), orDash(c.Over()), orDash(c.FalselyDenied()), orDash(median(c.Logged)),
		decimal(c.TripsPerCall), decimal(c.RetriesPerCall), decimal(c.CommandsPerCall), millis(c.P50), p99,
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

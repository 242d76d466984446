package race

import (
	"math"
	"slices"
	"strings"
)

// chart is a quantity by number of clients, one line per way. Ways whose values are all equal share a line.
type chart struct {
	name    string // of the file
	title   string
	unit    string
	log     bool // draw the values on a logarithmic axis
	callers []int
	lines   []line
	mark    float64 // a value to mark with a line across the chart; 0 means none
}

type line struct {
	ways   []string
	values []float64 // one per number of clients
}

func (l line) label() string { return strings.Join(l.ways, " · ") }

// charts returns the effects of contention at ContentionRoundTrip: on the answers, and on the latency.
func (r *Report) charts(callers []int) []chart {
	callers = slices.Clone(callers)
	slices.Sort(callers)
	callers = slices.Compact(callers)
	if len(callers) < 2 {
		return nil
	}
	admitted := chart{name: "race-admitted", title: "Callers admitted (median)", callers: callers, mark: float64(r.Limit)}
	latency := chart{name: "race-p99", title: "99th percentile of a call's wait", unit: " ms", log: true, callers: callers}
	admitted.lines = r.lines(callers, func(c Cell) float64 { return float64(c.Admitted.Median) })
	latency.lines = r.lines(callers, func(c Cell) float64 { return float64(c.P99US) / 1000 })
	return []chart{admitted, latency}
}

func (r *Report) lines(callers []int, value func(Cell) float64) []line {
	var lines []line
	for _, way := range r.wayNames() {
		values := make([]float64, 0, len(callers))
		for _, n := range callers {
			i := slices.IndexFunc(r.Cells, func(c Cell) bool {
				return c.Way == way && c.Callers == n && c.AddedUS == ContentionRoundTrip.Microseconds()
			})
			if i >= 0 {
				values = append(values, value(r.Cells[i]))
			}
		}
		if len(values) < len(callers) {
			continue // not run at every load: cannot draw a line
		}
		same := slices.IndexFunc(lines, func(l line) bool { return slices.Equal(l.values, values) })
		if same >= 0 {
			lines[same].ways = append(lines[same].ways, way)
			continue
		}
		lines = append(lines, line{[]string{way}, values})
	}
	return lines
}

func (r *Report) wayNames() []string {
	var names []string
	for _, c := range r.Cells {
		if !slices.Contains(names, c.Way) {
			names = append(names, c.Way)
		}
	}
	return names
}

// scale converts a value to a linear scale.
func (c chart) scale(v float64) float64 {
	if c.log {
		return math.Log10(max(v, 1e-3))
	}
	return v
}

// span returns the least and the greatest value, the ends of the axis.
func (c chart) span() (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		low, high = min(low, slices.Min(l.values)), max(high, slices.Max(l.values))
	}
	if !c.log {
		return 0, max(high, c.mark, 1)
	}
	return math.Pow(10, math.Floor(c.scale(low))), math.Pow(10, math.Ceil(c.scale(high)+1e-9))
}

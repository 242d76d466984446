package race

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A chart is a quantity by number of clients, one line per way, on a linear or a logarithmic axis from low to high.
type chart struct {
	name, title, unit string
	log               bool
	callers           []int
	lines             []line
	low, high         float64
}

// A line is the values of ways whose values are all equal.
type line struct {
	ways   string
	values []float64
}

// WriteCharts draws into dir how the answers and the latency depend on the number of clients, over one network.
func WriteCharts(dir string, cells []*Cell, callers []int, roundTrip time.Duration) error {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c *Cell) bool {
		return c.Load.RoundTrip != roundTrip || !slices.Contains(callers, c.Load.Callers)
	})
	slices.SortStableFunc(cells, func(a, b *Cell) int { return a.Load.Callers - b.Load.Callers })
	admitted := chart{name: "race-admitted", title: "Callers admitted (median)", callers: callers, high: float64(limit.Calls)}
	latency := chart{name: "race-p99", title: "99th percentile of a call's wait", unit: " ms", log: true, callers: callers, low: math.Inf(1)}
	admitted.draw(cells, func(c *Cell) float64 { return float64(median(c.Admitted)) })
	latency.draw(cells, func(c *Cell) float64 { return float64(c.P99.Microseconds()) / 1000 })
	latency.low, latency.high = math.Pow(10, math.Floor(math.Log10(latency.low))), math.Pow(10, math.Ceil(math.Log10(latency.high)))
	for _, c := range []*chart{&admitted, &latency} {
		if err := os.WriteFile(filepath.Join(dir, c.name+".svg"), c.svg(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// draw adds a line for every way.
func (c *chart) draw(cells []*Cell, value func(*Cell) float64) {
	for _, way := range Ways() {
		var values []float64
		for _, cell := range cells {
			if cell.Way == way.Name {
				v := value(cell)
				values = append(values, v)
				c.low, c.high = min(c.low, v), max(c.high, v)
			}
		}
		if same := slices.IndexFunc(c.lines, func(l line) bool { return slices.Equal(l.values, values) }); same >= 0 {
			c.lines[same].ways += " · " + way.Name
		} else {
			c.lines = append(c.lines, line{way.Name, values})
		}
	}
}

// The plotting area and what surrounds it, in user units.
const left, right, top, bottom, legendStep = 76.0, 700.0, 44.0, 324.0, 20.0

// Colours are readable on white and on black; grid and text follow the viewer's scheme.
const style = `<style>
text{font:13px system-ui,sans-serif;fill:#3d444d}.title{font-size:15px;font-weight:600}.grid{stroke:#d1d9e0}
.line{fill:none;stroke-width:2.25;stroke-linejoin:round}
@media (prefers-color-scheme:dark){text{fill:#c9d1d9}.grid{stroke:#3d444d}}
</style>
`

var colours = []string{"#d55e00", "#0072b2", "#cc79a7", "#009e73", "#b58900", "#7b61d1", "#56a0d3", "#808080", "#b03060"}

// dashes distinguish lines where colours cannot.
var dashes = []string{"0", "7 4", "2 4", "10 3 2 3", "4 3"}

func (c *chart) x(i int) float64 {
	return left + 24 + float64(i)*(right-left-48)/float64(len(c.callers)-1)
}

func (c *chart) y(v float64) float64 {
	share := (v - c.low) / (c.high - c.low)
	if c.log {
		share = math.Log(v/c.low) / math.Log(c.high/c.low)
	}
	return bottom - share*(bottom-top)
}

func (c *chart) svg() []byte {
	var b bytes.Buffer
	text := func(x, y float64, attributes, s string) {
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" %s>%s</text>`+"\n", x, y, attributes, html.EscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 %.0f" role="img" aria-label="%s">`+"\n%s", bottom+62+legendStep*float64(len(c.lines)), html.EscapeString(c.title), style)
	text(left, 24, `class="title"`, c.title+", 1 ms of added round trip")
	for _, v := range c.ticks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/>`+"\n", left, right, c.y(v), c.y(v))
		text(left-8, c.y(v)+4, `text-anchor="end"`, strconv.FormatFloat(v, 'g', -1, 64)+c.unit)
	}
	for i, n := range c.callers {
		text(c.x(i), bottom+20, `text-anchor="middle"`, strconv.Itoa(n))
	}
	text((left+right)/2, bottom+40, `text-anchor="middle"`, "callers released at once")
	for i, l := range c.lines {
		stroke := fmt.Sprintf(`class="line" stroke="%s" stroke-dasharray="%s"`, colours[i%len(colours)], dashes[i%len(dashes)])
		var points strings.Builder
		for j, v := range l.values {
			fmt.Fprintf(&points, "%.1f,%.1f ", c.x(j), c.y(v))
		}
		y := bottom + 62 + float64(i)*legendStep
		fmt.Fprintf(&b, `<polyline %s points="%s"/><line %s x1="%.0f" x2="%.0f" y1="%.0f" y2="%.0f"/>`+"\n", stroke, points.String(), stroke, left, left+34, y-4, y-4)
		text(left+44, y, "", l.ways)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// ticks returns powers of ten on a logarithmic axis, otherwise ten steps.
func (c *chart) ticks() (all []float64) {
	if !c.log {
		for i := range 11 {
			all = append(all, c.high*float64(i)/10)
		}
		return all
	}
	for v := c.low; v <= c.high*1.001; v *= 10 {
		all = append(all, v)
	}
	return all
}

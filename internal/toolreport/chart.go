package toolreport

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/guptarohit/asciigraph"
)

// A Chart is lines over a common axis.
type Chart struct {
	Caption string   `json:"caption"`
	Axis    string   `json:"axis"`           // label of the horizontal axis
	From    string   `json:"from,omitempty"` // its ends
	To      string   `json:"to,omitempty"`
	Marks   []string `json:"marks,omitempty"` // instead, a name for every point
	Lines   []Line   `json:"lines"`
}

// A Line is values at equal distances. All lines of a chart have the same number of values.
type Line struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// Sizes of charts.
const (
	textWidth, textHeight   = 60, 8
	svgWidth, svgHeight     = 720, 260
	left, right, above, low = 64, 16, 34, 36
)

func (c *Chart) text(w io.Writer) {
	fmt.Fprintln(w, c.Caption)
	for _, l := range c.Lines {
		if len(c.Lines) > 1 {
			fmt.Fprintf(w, "  %s\n", l.Name)
		}
		values := resample(l.Values, textWidth)
		high := highest(Line{Values: values})
		if high == 0 {
			fmt.Fprintln(w, "  0 throughout")
			continue
		}
		options := []asciigraph.Option{asciigraph.Height(textHeight), asciigraph.Width(textWidth), asciigraph.LowerBound(0), asciigraph.UpperBound(high), asciigraph.Precision(precision(high))}
		for row := range strings.SplitSeq(asciigraph.Plot(values, options...), "\n") {
			fmt.Fprintln(w, strings.TrimRight("  "+row, " "))
		}
	}
	from, to := c.ends()
	fmt.Fprintf(w, "  %s: %s to %s\n", c.Axis, from, to)
}

func (c *Chart) ends() (from, to string) {
	if n := len(c.Marks); n > 0 {
		return c.Marks[0], c.Marks[n-1]
	}
	return c.From, c.To
}

func precision(high float64) uint {
	switch {
	case high >= 20:
		return 0
	case high >= 1:
		return 1
	}
	return 3
}

// resample returns the values at n points. It takes the highest of those that fall together, so that peaks are
// kept.
func resample(values []float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		from := i * len(values) / n
		to := max(from+1, (i+1)*len(values)/n)
		out[i] = highest(Line{Values: values[from:min(to, len(values))]})
	}
	return out
}

// highest returns the highest value, or 0 if all are negative.
func highest(lines ...Line) (high float64) {
	for _, l := range lines {
		for _, v := range l.Values {
			high = max(high, v)
		}
	}
	return high
}

// SVG writes the chart as a self-contained image.
func (c *Chart) SVG(w io.Writer) {
	high := highest(c.Lines...)
	step := tick(high)
	top := max(step, math.Ceil(high/step-1e-9)*step)
	x := func(i, n int) float64 { return left + float64(i)*(svgWidth-left-right)/float64(max(1, n-1)) }
	y := func(v float64) float64 { return svgHeight - low - v/top*(svgHeight-low-above) }
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="12" fill="#666">`, svgWidth, svgHeight)
	fmt.Fprintf(w, `<title>%s</title>`, html.EscapeString(c.Caption))
	for v := 0.0; v <= top+step/2; v += step {
		fmt.Fprintf(w, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#8884"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, svgWidth-right, y(v), y(v), left-8, y(v)+4, strconv.FormatFloat(v, 'g', 6, 64))
	}
	c.svgAxis(w, x)
	at := left
	for i, l := range c.Lines {
		colour := colours[i%len(colours)]
		var points strings.Builder
		for j, v := range l.Values {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(j, len(l.Values)), y(v))
		}
		fmt.Fprintf(w, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`, colour, strings.TrimSpace(points.String()))
		fmt.Fprintf(w, `<rect x="%d" y="8" width="12" height="12" fill="%s"/><text x="%d" y="18">%s</text>`, at, colour, at+18, html.EscapeString(l.Name))
		at += 40 + 7*len(l.Name)
	}
	fmt.Fprint(w, "</svg>\n")
}

// mostMarks is how many names fit under the horizontal axis.
const mostMarks = 14

// svgAxis writes the horizontal axis: the name of every point if there is room, otherwise its ends.
func (c *Chart) svgAxis(w io.Writer, x func(i, n int) float64) {
	from, to := c.ends()
	ends, label := svgHeight-12, svgHeight-12
	if n := len(c.Marks); n > 2 && n <= mostMarks {
		ends = svgHeight - 20
		label = svgHeight - 4
		for i, name := range c.Marks[1 : n-1] {
			fmt.Fprintf(w, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x(i+1, n), ends, html.EscapeString(name))
		}
	}
	fmt.Fprintf(w, `<text x="%d" y="%d">%s</text><text x="%d" y="%d" text-anchor="middle">%s</text><text x="%d" y="%d" text-anchor="end">%s</text>`,
		left, ends, html.EscapeString(from), (left+svgWidth-right)/2, label, html.EscapeString(c.Axis), svgWidth-right, ends, html.EscapeString(to))
}

// colours are distinguishable for colour-blind people, too.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// tick returns a round distance for at most six grid lines.
func tick(high float64) float64 {
	if high <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(high/5)))
	for _, n := range []float64{1, 2, 5, 10} {
		if high/(n*unit) <= 5.0001 {
			return n * unit
		}
	}
	return 10 * unit
}

package race

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// WriteSVGs draws the contention charts into dir.
func (r *Report) WriteSVGs(dir string, callers []int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write charts: %w", err)
	}
	for _, c := range r.charts(callers) {
		file := filepath.Join(dir, c.name+".svg")
		if err := os.WriteFile(file, c.svg(), 0o644); err != nil {
			return fmt.Errorf("write chart: %w", err)
		}
	}
	return nil
}

// The plotting area and what surrounds it, in user units.
const (
	svgWidth   = 720
	plotLeft   = 76
	plotRight  = 700
	plotTop    = 44
	plotBottom = 324
	legendTop  = plotBottom + 62
	legendStep = 20
)

// Colours are readable on white and on black; grid and text follow the viewer's scheme.
const svgStyle = `<style>
text{font:13px system-ui,sans-serif;fill:#3d444d}.title{font-size:15px;font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1}.mark{stroke:#59636e;stroke-width:1.5;stroke-dasharray:2 4}
.line{fill:none;stroke-width:2.25;stroke-linejoin:round}
@media (prefers-color-scheme:dark){text{fill:#c9d1d9}.grid{stroke:#3d444d}.mark{stroke:#9198a1}}
</style>
`

var svgColors = []string{"#d55e00", "#0072b2", "#cc79a7", "#009e73", "#b58900", "#7b61d1", "#56a0d3", "#808080", "#b03060"}

// Dashes distinguish lines where colours cannot.
var svgDashes = []string{"", "7 4", "2 4", "10 3 2 3", "4 3"}

func (c chart) svg() []byte {
	var b bytes.Buffer
	height := legendTop + legendStep*len(c.lines)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", svgWidth, height, html.EscapeString(c.title))
	b.WriteString(svgStyle)
	text(&b, plotLeft, 24, "start", "title", fmt.Sprintf("%s, %s of added round trip", c.title, inMillis(ContentionRoundTrip.Microseconds())))
	c.drawAxes(&b)
	for i, l := range c.lines {
		c.drawLine(&b, i, l)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func text(b *bytes.Buffer, x, y float64, anchor, class, s string) {
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
}

func (c chart) x(i int) float64 {
	const margin = 24 // keeps the first and last points off the frame
	return plotLeft + margin + float64(i)*(plotRight-plotLeft-2*margin)/float64(len(c.callers)-1)
}

func (c chart) y(v float64) float64 {
	low, high := c.span()
	return plotBottom - (c.scale(v)-c.scale(low))/(c.scale(high)-c.scale(low))*(plotBottom-plotTop)
}

func (c chart) drawAxes(b *bytes.Buffer) {
	for _, v := range c.ticks() {
		y := c.y(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotRight, y, y)
		text(b, plotLeft-8, y+4, "end", "tick", strconv.FormatFloat(v, 'g', -1, 64)+c.unit)
	}
	for i, n := range c.callers {
		text(b, c.x(i), plotBottom+20, "middle", "tick", strconv.Itoa(n))
	}
	text(b, (plotLeft+plotRight)/2, plotBottom+40, "middle", "axis", "callers released at once")
	if c.mark > 0 {
		y := c.y(c.mark)
		fmt.Fprintf(b, `<line class="mark" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotLeft, plotRight, y, y)
		text(b, plotLeft+4, y-6, "start", "tick", "the limit")
	}
}

// ticks returns powers of ten on a logarithmic axis, otherwise about five round steps.
func (c chart) ticks() []float64 {
	low, high := c.span()
	var ticks []float64
	if c.log {
		for v := low; v <= high*1.001; v *= 10 {
			ticks = append(ticks, v)
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10(high/5)))
	for _, round := range []float64{1, 2, 5, 10} {
		if high/(step*round) <= 6 {
			step *= round
			break
		}
	}
	for v := low; v <= high; v += step {
		ticks = append(ticks, v)
	}
	return ticks
}

// drawLine draws a line with its points, and its entry in the legend.
func (c chart) drawLine(b *bytes.Buffer, i int, l line) {
	color, dash := svgColors[i%len(svgColors)], svgDashes[i%len(svgDashes)]
	stroke := fmt.Sprintf(`class="line" stroke="%s"`, color)
	if dash != "" {
		stroke += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	fmt.Fprintf(b, `<polyline %s points="`, stroke)
	for j, v := range l.values {
		fmt.Fprintf(b, "%.1f,%.1f ", c.x(j), c.y(v))
	}
	b.WriteString(`"/>` + "\n")
	for j, v := range l.values {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", c.x(j), c.y(v), color)
	}
	y := legendTop + float64(i)*legendStep
	fmt.Fprintf(b, `<line %s x1="%d" x2="%d" y1="%.0f" y2="%.0f"/>`+"\n", stroke, plotLeft, plotLeft+34, y-4, y-4)
	text(b, plotLeft+44, y, "start", "key", l.label())
}

package race

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/guptarohit/asciigraph"
)

var lineColors = []asciigraph.AnsiColor{
	asciigraph.Red, asciigraph.Orange, asciigraph.Gold, asciigraph.Green, asciigraph.Cyan,
	asciigraph.Blue, asciigraph.Violet, asciigraph.Magenta, asciigraph.Gray,
}

// WritePlots draws the contention charts with characters. Lines are letters, so
// that they can be told apart without colour.
func (r *Report) WritePlots(w io.Writer, callers []int, color bool) error {
	for _, c := range r.charts(callers) {
		if _, err := fmt.Fprintf(w, "\n%s, against callers at once, %s of added round trip\n\n%s\n\n", c.title, inMillis(ContentionRoundTrip.Microseconds()), c.plot(color)); err != nil {
			return err
		}
		for i, l := range c.lines {
			fmt.Fprintf(w, "  %s  %s\n", letter(i), l.label())
		}
	}
	return nil
}

func letter(i int) string { return string(rune('A' + i%26)) }

func (c chart) plot(color bool) string {
	const width, height = 66, 16
	var data [][]float64
	var chars []asciigraph.CharSet
	var colors []asciigraph.AnsiColor
	for i, l := range c.lines {
		scaled := make([]float64, len(l.values))
		for j, v := range l.values {
			scaled[j] = c.scale(v)
		}
		data = append(data, scaled)
		chars = append(chars, asciigraph.CreateCharSet(letter(i)))
		colors = append(colors, lineColors[i%len(lineColors)])
	}
	low, high := c.span()
	options := []asciigraph.Option{
		asciigraph.Width(width), asciigraph.Height(height),
		asciigraph.LowerBound(c.scale(low)), asciigraph.UpperBound(c.scale(high)),
		asciigraph.SeriesChars(chars...),
		asciigraph.YAxisValueFormatter(func(v float64) string {
			if c.log {
				v = math.Pow(10, v)
			}
			return strconv.FormatFloat(v, 'f', 1, 64) + c.unit
		}),
		asciigraph.XAxisRange(0, float64(len(c.callers)-1)), asciigraph.XAxisTickCount(len(c.callers)),
		asciigraph.XAxisValueFormatter(func(v float64) string {
			return strconv.Itoa(c.callers[min(int(math.Round(v)), len(c.callers)-1)])
		}),
	}
	if color {
		options = append(options, asciigraph.SeriesColors(colors...))
	}
	return asciigraph.PlotMany(data, options...)
}

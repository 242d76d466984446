// Package progress prints the progress of a long-running tool on one line.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// every is how often the line is drawn.
const every = 200 * time.Millisecond

// A Bar is that line. A nil Bar draws nothing.
type Bar struct {
	w     io.Writer
	noun  string // what is counted
	label string // before the line
	began time.Time
	drawn time.Time
	width int // of what was drawn last
}

// New returns a bar on a terminal, or nil where there is none.
func New(w io.Writer, isTerminal bool, noun string) *Bar {
	if !isTerminal {
		return nil
	}
	return &Bar{w: w, noun: noun, began: time.Now()}
}

// Set draws the line again if the last time was a while ago. part is how much of the work is done, from 0
// to 1; negative: unknown.
func (b *Bar) Set(part float64, count int64) {
	if b == nil || time.Since(b.drawn) < every {
		return
	}
	b.drawn = time.Now()
	took := b.drawn.Sub(b.began)
	rate := float64(count) / max(took.Seconds(), 0.001)
	line := fmt.Sprintf("%s %s, %.0f/s", Grouped(count), b.noun, rate)
	if part >= 0 {
		part = min(part, 1)
		const width = 30
		full := int(part * width)
		line = fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("=", full), strings.Repeat(" ", width-full), 100*part, line)
	}
	if part > 0.001 {
		left := time.Duration(float64(took) * (1 - part) / part)
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	if b.label != "" {
		line = b.label + " " + line
	}
	b.draw(line)
}

// Label sets what the line begins with. A new label begins new work.
func (b *Bar) Label(label string) *Bar {
	if b != nil && b.label != label {
		b.label, b.began = label, time.Now()
	}
	return b
}

// Done removes the line.
func (b *Bar) Done() {
	if b != nil && b.width > 0 {
		b.draw("")
		fmt.Fprint(b.w, "\r")
	}
}

func (b *Bar) draw(line string) {
	fmt.Fprintf(b.w, "\r%-*s", b.width, line)
	b.width = len(line)
}

// Grouped writes a number with commas: 1,234,567.
func Grouped(n int64) string {
	text := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

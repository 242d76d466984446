package report

import (
	"fmt"
	"os"
)

// Progress shows on a terminal how far a benchmark is. The zero Progress is silent.
type Progress struct {
	to   *os.File
	name string
	all  int
	done int
}

// Begin returns the progress of a benchmark with that many steps, silent unless f is a terminal.
func Begin(f *os.File, name string, steps int) *Progress {
	p := &Progress{name: name, all: steps}
	if f == nil {
		return p
	}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.to = f
	}
	return p
}

const clearLine = "\r\x1b[K"

// Step shows what is measured next.
func (p *Progress) Step(format string, args ...any) {
	if p.to == nil {
		return
	}
	p.done++
	fmt.Fprintf(p.to, "%s%s %d/%d  %s", clearLine, p.name, p.done, p.all, fmt.Sprintf(format, args...))
}

// End clears the line.
func (p *Progress) End() {
	if p.to != nil {
		fmt.Fprint(p.to, clearLine)
	}
}

// Package lab is what the benchmarks share: how a section runs and ends, loads, a longer network, and servers with
// their processor time.
package lab

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// A Bench is the run of one section. As with a test, the first error ends it: a benchmark can do nothing about an error
// but report it. Check and Must do that.
type Bench struct {
	context.Context
	Name     string
	Repeat   int      // interleaved repeats per figure
	Divisor  int      // of the sizes and times of a full run; 0: 1
	HugeKeys int      // keys of the section huge
	Stderr   *os.File // shows the progress if it is a terminal; may be nil

	steps    int
	doing    string
	cleanups []func()
}

type failure struct{ error }

// Check ends the section if there is an error. Only the section's own goroutine may call it.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns the value, or ends the section.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Try calls f and returns the error that Check or Must ended it with.
func Try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Run runs a section, and returns the error that ended it.
func (b Bench) Run(section func(*Bench)) error {
	err := Try(func() { b.Scope(func() { section(&b) }) })
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", b.Name, b.doing, err)
	}
	b.show("")
	return err
}

// Size returns how many to measure, of what a full run measures.
func (b *Bench) Size(full int) int { return max(1, full/max(1, b.Divisor)) }

// Cell returns how long to measure one repeat of one figure, of what a full run takes.
func (b *Bench) Cell(full time.Duration) time.Duration {
	return full / time.Duration(max(1, b.Divisor))
}

// Cleanup calls f at the end of the section, or of the innermost scope. The last one is called first.
func (b *Bench) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

// Scope calls f, and then the cleanups that f asked for.
func (b *Bench) Scope(f func()) {
	outer := b.cleanups
	b.cleanups = nil
	defer func() {
		for _, f := range slices.Backward(b.cleanups) {
			f()
		}
		b.cleanups = outer
	}()
	f()
}

// Step says what is measured next, on the terminal and in an error. It ends the section if it was interrupted.
func (b *Bench) Step(format string, args ...any) {
	b.steps++
	b.doing = fmt.Sprintf(format, args...)
	Check(context.Cause(b))
	b.show(fmt.Sprintf("%s %d  %s", b.Name, b.steps, b.doing))
}

// show replaces the line on the terminal.
func (b *Bench) show(line string) {
	if b.Stderr == nil {
		return
	}
	if info, err := b.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprint(b.Stderr, "\r\x1b[K", line)
	}
}

// TempDir returns a directory that is removed at the end.
func (b *Bench) TempDir(parent string) string {
	dir := Must(os.MkdirTemp(parent, "penstock-bench-"))
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // the measurement is complete
	return dir
}

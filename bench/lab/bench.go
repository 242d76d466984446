// Package lab is what the benchmarks share: how a section runs and ends, loads, a longer network, and servers with
// their processor time.
package lab

import (
	"context"
	"fmt"
	"os"
	"slices"
)

// A Bench is the run of one section. As with a test, the first error ends it: a benchmark can do nothing about an error
// but report it. Check and Must do that.
type Bench struct {
	context.Context
	Repeat int // interleaved repeats per figure

	name     string
	terminal *os.File // nil: show no progress
	steps    int
	doing    string
	cleanups []func()
}

// failure is the error that ended a section.
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

// Run runs a section and returns its result. Progress is shown on stderr if that is a terminal.
func Run[T any](ctx context.Context, name string, repeat int, stderr *os.File, section func(*Bench) T) (result T, err error) {
	b := &Bench{Context: ctx, Repeat: repeat, name: name}
	if stderr != nil {
		if info, err := stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.terminal = stderr
		}
	}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%s: %s: %w", name, b.doing, r.error)
		default:
			panic(r)
		}
	}()
	defer func() {
		if b.terminal != nil {
			fmt.Fprint(b.terminal, clearLine)
		}
	}()
	b.Scope(func() { result = section(b) })
	return result, nil
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

const clearLine = "\r\x1b[K"

// Step says what is measured next, on the terminal and in an error. It ends the section if it was interrupted.
func (b *Bench) Step(format string, args ...any) {
	b.steps++
	b.doing = fmt.Sprintf(format, args...)
	Check(context.Cause(b))
	if b.terminal != nil {
		fmt.Fprintf(b.terminal, "%s%s %d  %s", clearLine, b.name, b.steps, b.doing)
	}
}

// TempDir returns a directory that is removed at the end.
func (b *Bench) TempDir(parent string) string {
	dir := Must(os.MkdirTemp(parent, "penstock-bench-"))
	b.Cleanup(func() { _ = os.RemoveAll(dir) }) // the measurement is complete
	return dir
}

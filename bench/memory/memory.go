// Package memory measures how long a decision in process memory takes.
//
// It is separate from package inprocess, which defines the contestants, because it defines the load and the
// goals.
package memory

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/report"
)

// Options configure how much is measured.
type Options struct {
	Keys   int
	Cell   time.Duration // of one repeat of one figure
	Repeat int
	Stderr *os.File // for progress
}

// A cell is one column of the table.
type cell struct {
	name    string
	limit   inprocess.Limit
	pattern inprocess.Pattern
	procs   int
}

func cells() (all []cell) {
	add := func(name string, l inprocess.Limit, p inprocess.Pattern) {
		for procs := 1; procs <= 2; procs++ {
			all = append(all, cell{fmt.Sprintf("%s, %d core", name, procs), l, p, procs})
		}
	}
	for _, p := range []inprocess.Pattern{inprocess.Hot, inprocess.Uniform, inprocess.Zipf} {
		add(string(p), inprocess.Roomy, p)
	}
	// All keys have used up their limit: every request is denied.
	add("hot denied", inprocess.Spent, inprocess.Hot)
	add("denied", inprocess.Spent, inprocess.Uniform)
	return all
}

// Measure runs the benchmark.
func Measure(o Options) (s report.Section, err error) {
	contestants, columns := inprocess.Contestants(), cells()
	progress := report.Begin(o.Stderr, "memory", len(contestants)*(2+len(columns)*o.Repeat))
	defer progress.End()
	f := field{options: o, elapsed: report.Samples{}, cpu: report.Samples{}, progress: progress}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, c := range contestants {
		child, err := inprocess.Spawn(c.Name)
		if err != nil {
			return s, err
		}
		f.runners = append(f.runners, runner{c.Name, child})
	}
	for _, limit := range []inprocess.Limit{inprocess.Roomy, inprocess.Spent} {
		if err := f.measure(limit, columns); err != nil {
			return s, err
		}
	}
	elapsed := f.table("Nanoseconds per decision, all cores together", f.elapsed, columns)
	cpu := f.table("Processor nanoseconds per decision, which a busy machine distorts less", f.cpu, columns)
	return section(o, elapsed, cpu, columns), nil
}

type runner struct {
	name  string
	child *inprocess.Child
}

// field is all contestants, each in its own process.
type field struct {
	options  Options
	runners  []runner
	elapsed  report.Samples // ns per request
	cpu      report.Samples
	progress *report.Progress
}

func (f *field) close() (err error) {
	for _, r := range f.runners {
		err = errors.Join(err, r.child.Close())
	}
	return err
}

// measure measures every column with this limit. Each repeat runs every contestant in turn, so that a slow phase
// of the machine affects all of them.
func (f *field) measure(limit inprocess.Limit, columns []cell) error {
	for _, r := range f.runners {
		f.progress.Step("fill %s", r.name)
		if err := r.child.Open(limit); err != nil {
			return err
		}
		if err := r.child.Fill(0, f.options.Keys); err != nil {
			return err
		}
	}
	for range f.options.Repeat {
		for _, c := range columns {
			if c.limit != limit {
				continue
			}
			for _, r := range f.runners {
				f.progress.Step("%s: %s", c.name, r.name)
				if err := f.visit(r, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (f *field) visit(r runner, c cell) error {
	ran, err := r.child.Run(inprocess.Run{Pattern: c.pattern, Procs: c.procs, Duration: f.options.Cell})
	if err != nil {
		return err
	}
	want := ran.Calls
	if c.limit == inprocess.Spent {
		want = 0
	}
	if ran.Allowed != want {
		return fmt.Errorf("%s, %s: %d of %d calls passed, want %d: it is not in the state to be measured", r.name, c.name, ran.Allowed, ran.Calls, want)
	}
	f.elapsed.Add(r.name, c.name, ran.PerCall())
	f.cpu.Add(r.name, c.name, ran.CPUPerCall())
	return nil
}

func (f *field) table(title string, samples report.Samples, columns []cell) report.Table {
	t := report.Table{Title: title}
	for _, c := range columns {
		t.Columns = append(t.Columns, report.Column{Name: c.name, Unit: "ns", Better: report.Less})
	}
	for _, c := range inprocess.Contestants() {
		t.Rows = append(t.Rows, samples.Row(c.Name, c.Role, "", t.Columns))
	}
	t.AgainstBestPeer()
	return t
}

func section(o Options, elapsed, cpu report.Table, columns []cell) report.Section {
	s := report.Section{
		Name:  "memory",
		Title: fmt.Sprintf("In process memory, %s keys", report.Figure(float64(o.Keys))),
		Notes: []string{"Our rows hash the subject from the same string that the peers take as their key, on every call, and fill a whole decision; the reference is the fastest peer of each column.",
			fmt.Sprintf("One read from a random place among this number of 32-byte slots takes %v on this machine. A single decision for a new key cannot be faster; decisions in a batch share the wait.", chase(o.Keys))},
	}
	for i, c := range columns {
		ratio := func(row string, want float64) {
			s.Goals = append(s.Goals, report.Goal{
				Name:  fmt.Sprintf("memory: %s vs fastest exact peer, %s", strings.TrimPrefix(row, "penstock "), c.name),
				Bound: report.AtLeast, Want: want, Measured: elapsed.Ratio(row, i), Unit: "×",
			})
		}
		if c.pattern == inprocess.Uniform && c.limit == inprocess.Roomy {
			ratio(inprocess.Headline, 3)
			ratio(inprocess.Batched, 4)
		} else {
			ratio(inprocess.Headline, 1)
		}
		if c.pattern == inprocess.Hot && c.limit == inprocess.Roomy && c.procs == 1 {
			s.Goals = append(s.Goals, report.Goal{
				Name: "memory: " + c.name, Bound: report.AtMost, Want: 60, Measured: elapsed.Value(inprocess.Headline, i), Unit: " ns",
			})
		}
	}
	s.Tables = []report.Table{elapsed, cpu}
	return s
}

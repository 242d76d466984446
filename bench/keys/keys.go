// Package keys measures what a key costs a process besides time: bytes, and work for the garbage collector.
//
// It is separate from package memory because it needs the machine's memory for one contestant at a time.
package keys

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/report"
)

// Options configure how much is measured.
type Options struct {
	Keys     int
	Cell     time.Duration
	MaxBytes int64    // contestants that would need more are skipped
	Stderr   *os.File // for progress
}

// Columns of the table.
const (
	heap = iota
	resident
	own
	collection
)

// Measure runs the benchmark.
func Measure(o Options) (report.Section, error) {
	contestants := inprocess.Contestants()
	progress := report.Begin(o.Stderr, "keys", len(contestants))
	defer progress.End()
	s := report.Section{Name: "keys", Title: fmt.Sprintf("What %s keys cost", report.Figure(float64(o.Keys)))}
	t := report.Table{
		Title: "Bytes per key, keys included, and the time of a full garbage collection",
		Columns: []report.Column{
			heap:       {Name: "heap", Unit: "B/key", Better: report.Less},
			resident:   {Name: "resident", Unit: "B/key", Better: report.Less},
			own:        {Name: "own account", Unit: "B/key", Better: report.Less},
			collection: {Name: "full GC", Unit: "ms", Better: report.Less},
		},
	}
	for _, c := range contestants {
		progress.Step("%s", c.Name)
		w, err := fill(c.Name, o)
		var tooLarge *tooLargeError
		if errors.As(err, &tooLarge) {
			s.Notes = append(s.Notes, tooLarge.Error())
			t.Rows = append(t.Rows, report.Row{Name: c.Name, Role: c.Role, Values: []float64{report.Absent(), report.Absent(), report.Absent(), report.Absent()}})
			continue
		}
		if err != nil {
			return s, err
		}
		t.Rows = append(t.Rows, report.Row{Name: c.Name, Role: c.Role, Values: values(w, o.Keys)})
	}
	t.AgainstBestPeer()
	s.Tables = []report.Table{t}
	s.Goals = goals(&t)
	return s, nil
}

type tooLargeError struct {
	name       string
	need, most int64
}

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("Left out: %s would need about %d MiB, more than %d.", e.name, e.need>>20, e.most>>20)
}

// collections is how many are timed for the median.
const collections = 3

func fill(name string, o Options) (w inprocess.Weight, err error) {
	child, err := inprocess.Spawn(name)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, child.Close()) }()
	if err := child.Open(inprocess.Roomy); err != nil {
		return w, err
	}
	some := o.Keys / 10
	if err := child.Fill(0, some); err != nil {
		return w, err
	}
	if w, err = child.Weigh(0); err != nil {
		return w, err
	}
	if need := max(w.Heap, w.Resident) * 10; need > o.MaxBytes {
		return w, &tooLargeError{name, need, o.MaxBytes}
	}
	if err := child.Fill(some, o.Keys); err != nil {
		return w, err
	}
	return child.Weigh(collections)
}

func values(w inprocess.Weight, keys int) []float64 {
	perKey := func(bytes int64) float64 {
		if bytes <= 0 {
			return report.Absent()
		}
		return float64(bytes) / float64(keys)
	}
	var millis []float64
	for _, d := range w.GC {
		millis = append(millis, d.Seconds()*1e3)
	}
	return []float64{heap: perKey(w.Heap), resident: perKey(w.Resident), own: perKey(w.Own), collection: report.Median(millis)}
}

// goals returns two goals for memory: what the store and the heap account for, and what the process takes from
// the machine, including the runtime's own needs.
func goals(t *report.Table) []report.Goal {
	accounted := t.Value(inprocess.Headline, heap)
	if v := t.Value(inprocess.Headline, own); v > accounted { // memory that is not on the heap
		accounted = v
	}
	return []report.Goal{
		{Name: "keys: bytes per key, by the heap or its own account", Bound: report.AtMost, Want: 40, Measured: accounted, Unit: " B"},
		{Name: "keys: bytes per key, resident", Bound: report.AtMost, Want: 40, Measured: t.Value(inprocess.Headline, resident), Unit: " B"},
		{Name: "keys: full GC vs the peer with the fastest", Bound: report.AtMost, Want: 1.0 / 50, Measured: 1 / t.Ratio(inprocess.Headline, collection), Unit: "×"},
	}
}

package section

import (
	"fmt"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
)

// Columns of the table of weights.
const (
	heap = iota
	resident
	own
	collection
)

// mostWeight is the memory that a contestant may need; those that would need more are skipped.
var mostWeight int64 = 8 << 30

// collections is how many are timed for the median.
const collections = 3

// Keys measures what a key costs a process besides time: bytes, and work for the garbage collector. It measures one
// contestant at a time, because each needs the machine's memory.
func Keys(b *lab.Bench, size Sizes) report.Section {
	s := report.Section{Name: "keys", Title: fmt.Sprintf("What %s keys cost", report.Figure(float64(size.WeighedKeys)))}
	t := report.Table{
		Title: "Bytes per key, keys included, and the time of a full garbage collection",
		Columns: []report.Column{
			heap:       {Name: "heap", Unit: "B/key", Better: report.Less},
			resident:   {Name: "resident", Unit: "B/key", Better: report.Less},
			own:        {Name: "own account", Unit: "B/key", Better: report.Less},
			collection: {Name: "full GC", Unit: "ms", Better: report.Less},
		},
	}
	for _, c := range limiter.InMemory() {
		b.Step("%s", c.Name)
		w, need := weighKeys(b, c.Name, size.WeighedKeys)
		if need > mostWeight {
			s.Notes = append(s.Notes, fmt.Sprintf("Left out: %s would need about %d MiB, more than %d.", c.Name, need>>20, mostWeight>>20))
		}
		t.Rows = append(t.Rows, report.NewRow(c.Name, c.Role, perKey(w, size.WeighedKeys)...))
	}
	s.Tables = []report.Table{t.AgainstBestPeer()}
	// What the store and the heap account for, and what the process takes from the machine, including the runtime's own
	// needs.
	accounted := t.Value(limiter.Headline, heap)
	if v := t.Value(limiter.Headline, own); v > accounted { // memory that is not on the heap
		accounted = v
	}
	s.Goals = []report.Goal{
		report.AtMost("keys: bytes per key, by the heap or its own account", 40, accounted, " B"),
		report.AtMost("keys: bytes per key, resident", 40, t.Value(limiter.Headline, resident), " B"),
		report.AtMost("keys: full GC vs the peer with the fastest", 1.0/50, 1/t.Ratio(limiter.Headline, collection), "×"),
	}
	return s
}

// weighKeys fills a tenth of the keys and, if there is enough memory for all, the others. Otherwise the weight is zero.
func weighKeys(b *lab.Bench, name string, keys int) (w limiter.Weight, need int64) {
	b.Scope(func() {
		child := limiter.Spawn(b, name)
		child.Open(limiter.Roomy)
		child.Fill(0, keys/10)
		some := child.Weigh(0)
		if need = max(some.Heap, some.Resident) * 10; need > mostWeight {
			return
		}
		child.Fill(keys/10, keys)
		w = child.Weigh(collections)
	})
	return w, need
}

func perKey(w limiter.Weight, keys int) []float64 {
	each := func(bytes int64) float64 {
		if bytes <= 0 {
			return report.Absent()
		}
		return float64(bytes) / float64(keys)
	}
	var millis []float64
	for _, d := range w.GC {
		millis = append(millis, d.Seconds()*1e3)
	}
	return []float64{heap: each(w.Heap), resident: each(w.Resident), own: each(w.Own), collection: report.Median(millis)}
}

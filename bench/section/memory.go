// Package section contains the benchmarks of limiters and engines: in process memory, on Redis, by rules, and how costs
// grow. Each is one function that returns a section of the report.
package section

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
)

// A memoryCell is one column of the table.
type memoryCell struct {
	name    string
	limit   limiter.Limit
	pattern limiter.Pattern
	procs   int
}

func memoryCells() (all []memoryCell) {
	add := func(name string, l limiter.Limit, p limiter.Pattern) {
		for procs := 1; procs <= 2; procs++ {
			all = append(all, memoryCell{fmt.Sprintf("%s, %d core", name, procs), l, p, procs})
		}
	}
	for _, p := range []limiter.Pattern{limiter.Hot, limiter.Uniform, limiter.Zipf} {
		add(string(p), limiter.Roomy, p)
	}
	// All keys have used up their limit: every request is denied.
	add("hot denied", limiter.Spent, limiter.Hot)
	add("denied", limiter.Spent, limiter.Uniform)
	return all
}

// Memory measures how long a decision in process memory takes.
func Memory(b *lab.Bench) report.Section {
	keys := b.Size(1_000_000)
	elapsed, cpu := report.Samples{}, report.Samples{} // ns per request
	for _, limit := range []limiter.Limit{limiter.Roomy, limiter.Spent} {
		var children []*limiter.Child
		for _, c := range limiter.InMemory {
			b.Step("fill %s", c.Name)
			child := limiter.Spawn(b, c, limit)
			child.Fill(0, keys)
			children = append(children, child)
		}
		for range b.Repeat {
			for _, c := range memoryCells() {
				if c.limit != limit {
					continue
				}
				for _, child := range children {
					b.Step("%s: %s", c.name, child.Name)
					ran := child.Run(limiter.Run{Pattern: c.pattern, Procs: c.procs, Duration: b.Cell(500 * time.Millisecond)})
					if want := map[bool]int64{true: 0, false: ran.Calls}[limit == limiter.Spent]; ran.Allowed != want {
						lab.Check(fmt.Errorf("%d of %d calls passed, want %d: it is not in the state to be measured", ran.Allowed, ran.Calls, want))
					}
					elapsed.Add(child.Name, c.name, ran.PerCall())
					cpu.Add(child.Name, c.name, ran.CPUPerCall())
				}
			}
		}
	}
	return memorySection(keys, elapsed, cpu)
}

func memorySection(keys int, elapsed, cpu report.Samples) report.Section {
	var columns []report.Column
	for _, c := range memoryCells() {
		columns = append(columns, report.Column{Name: c.name, Unit: "ns", Better: report.Less})
	}
	rows := limiter.Rows(limiter.InMemory)
	t := elapsed.Table("Nanoseconds per decision, all cores together", "", columns, rows).AgainstBestPeer()
	s := report.Section{
		Name:  "memory",
		Title: fmt.Sprintf("In process memory, %s keys", report.Figure(float64(keys))),
		Notes: []string{"Our rows hash the subject from the same string that the peers take as their key, on every call, and fill a whole decision; the reference is the fastest peer of each column.",
			fmt.Sprintf("One read from a random place among this number of 32-byte slots takes %v on this machine. A single decision for a new key cannot be faster; decisions in a batch share the wait.", chase(keys))},
		Tables: []report.Table{t, cpu.Table("Processor nanoseconds per decision, which a busy machine distorts less", "", columns, rows).AgainstBestPeer()},
	}
	for i, c := range memoryCells() {
		ratio := func(row string, want float64) {
			name := fmt.Sprintf("memory: %s vs fastest exact peer, %s", strings.TrimPrefix(row, "penstock "), c.name)
			s.Goals = append(s.Goals, report.AtLeast(name, want, t.Ratio(row, i), "×"))
		}
		if c.pattern == limiter.Uniform && c.limit == limiter.Roomy {
			ratio(limiter.Headline, 3)
			ratio(limiter.Batched, 4)
		} else {
			ratio(limiter.Headline, 1)
		}
		if c.limit == limiter.Roomy {
			s.Goals = append(s.Goals, report.AtLeast("memory: two limits at once vs "+limiter.TheirTwo+", "+c.name, 1, t.Value(limiter.TheirTwo, i)/t.Value(limiter.OurTwo, i), "×"))
		}
		if c.pattern == limiter.Hot && c.limit == limiter.Roomy && c.procs == 1 {
			s.Goals = append(s.Goals, report.AtMost("memory: "+c.name, 60, t.Value(limiter.Headline, i), " ns"))
		}
	}
	return s
}

// chase returns how long one read takes from a random place among slots of 32 bytes, each read depending on the
// one before. A decision that reads its key's state from memory waits for at least one.
func chase(slots int) time.Duration {
	table := make([][4]uint64, slots)
	order := rand.Perm(slots)
	for i, at := range order {
		table[at][0] = uint64(order[(i+1)%slots])
	}
	next := uint64(0)
	start := time.Now()
	for range slots {
		next = table[next][0]
	}
	took := time.Since(start)
	runtime.KeepAlive(next) // otherwise the compiler removes the reads
	return took / time.Duration(slots)
}

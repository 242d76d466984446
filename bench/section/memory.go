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

// memoryCells are measured on one and on two cores, a column each.
var memoryCells = []struct {
	name    string
	limit   limiter.Limit
	pattern limiter.Pattern
}{
	{"hot", limiter.Roomy, limiter.Hot},
	{"uniform", limiter.Roomy, limiter.Uniform},
	{"zipf", limiter.Roomy, limiter.Zipf},
	// All keys have used up their limit: every request is denied.
	{"hot denied", limiter.Spent, limiter.Hot},
	{"denied", limiter.Spent, limiter.Uniform},
}

// Memory measures how long a decision in process memory takes.
func Memory(b *lab.Bench) report.Section {
	keys := b.Size(1_000_000)
	var names []string
	for _, c := range memoryCells {
		names = append(names, c.name+", 1 core", c.name+", 2 core")
	}
	elapsed := report.NewTable("Nanoseconds per decision, all cores together", report.Less.In("ns", names...))
	cpu := report.NewTable("Processor nanoseconds per decision, which a busy machine distorts less", report.Less.In("ns", names...))
	for _, limit := range []limiter.Limit{limiter.Roomy, limiter.Spent} {
		b.Scope(func() {
			var children []*limiter.Child
			for _, c := range limiter.InMemory {
				b.Step("fill %s", c.Name)
				child := limiter.Spawn(b, c, limit)
				child.Fill(0, keys)
				children = append(children, child)
			}
			for range b.Repeat {
				for column, name := range names {
					cell := memoryCells[column/2]
					if cell.limit != limit {
						continue
					}
					for _, c := range children {
						b.Step("%s: %s", name, c.Name)
						ran := c.Run(limiter.Run{Pattern: cell.pattern, Procs: column%2 + 1, Duration: b.Cell(500 * time.Millisecond)})
						if want := map[bool]int64{true: 0, false: ran.Calls}[limit == limiter.Spent]; ran.Allowed != want {
							lab.Check(fmt.Errorf("%d of %d calls passed, want %d: it is not in the state to be measured", ran.Allowed, ran.Calls, want))
						}
						elapsed.Add(c.Name, c.Role, column, ran.PerCall())
						cpu.Add(c.Name, c.Role, column, ran.CPUPerCall())
					}
				}
			}
		})
	}
	elapsed.AgainstBestPeer()
	cpu.AgainstBestPeer()
	s := report.Section{
		Name:  "memory",
		Title: fmt.Sprintf("In process memory, %s keys", report.Figure(float64(keys))),
		Notes: []string{"Our rows hash the subject from the same string that the peers take as their key, on every call, and fill a whole decision; the reference is the fastest peer of each column.",
			fmt.Sprintf("One read from a random place among this number of 32-byte slots takes %v on this machine. A single decision for a new key cannot be faster; decisions in a batch share the wait.", chase(keys))},
		Tables: []*report.Table{elapsed, cpu},
	}
	for column, name := range names {
		ratio := func(row string, want float64) {
			s.AtLeast(fmt.Sprintf("memory: %s vs fastest exact peer, %s", strings.TrimPrefix(row, "penstock "), name), want, elapsed.Ratio(row, column), "×")
		}
		roomy := memoryCells[column/2].limit == limiter.Roomy
		if roomy && memoryCells[column/2].pattern == limiter.Uniform {
			ratio(limiter.Headline, 3)
			ratio(limiter.Batched, 4)
		} else {
			ratio(limiter.Headline, 1)
		}
		if roomy {
			s.AtLeast("memory: two limits at once vs "+limiter.TheirTwo+", "+name, 1, elapsed.Times(limiter.OurTwo, limiter.TheirTwo, column), "×")
		}
		if column == 0 { // one hot key on one core
			s.AtMost("memory: "+name, 60, elapsed.Value(limiter.Headline, column), " ns")
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

// Package section contains the benchmarks of limiters and engines: in process memory, on Redis, by rules, and how costs
// grow. Each is one function that returns a section of the report.
package section

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// turnsOf returns into how many turns a cell of a pattern is divided, so that the contestants alternate more often:
// other users of the processors slow down everything for tenths of a second. Only a hot key is in the caches at once.
func turnsOf(p limiter.Pattern) int {
	if p == limiter.Hot {
		return 5
	}
	return 1
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
	for range b.Repeat {
		for _, limit := range []limiter.Limit{limiter.Roomy, limiter.Spent} {
			b.Scope(func() { // new processes for each repeat: how long a read takes depends on where the system puts their memory
				var children []*limiter.Child
				for _, c := range limiter.InMemory {
					b.Step("fill %s", c.Name)
					child := limiter.Spawn(b, c, limit)
					child.Fill(0, keys)
					children = append(children, child)
				}
				for column, name := range names {
					cell := memoryCells[column/2]
					if cell.limit != limit {
						continue
					}
					turns := turnsOf(cell.pattern)
					for i := range turns * len(children) {
						c := children[i%len(children)]
						b.Step("%s: %s", name, c.Name)
						ran := c.Run(limiter.Run{Pattern: cell.pattern, Procs: column%2 + 1, Duration: b.Cell(500*time.Millisecond) / time.Duration(turns)})
						if want := map[bool]int64{true: 0, false: ran.Calls}[limit == limiter.Spent]; ran.Allowed != want {
							lab.Check(fmt.Errorf("%d of %d calls passed, want %d: it is not in the state to be measured", ran.Allowed, ran.Calls, want))
						}
						elapsed.Add(c.Name, c.Role, column, ran.PerCall())
						cpu.Add(c.Name, c.Role, column, ran.CPUPerCall())
					}
				}
			})
		}
	}
	elapsed.AgainstBestPeer()
	cpu.AgainstBestPeer()
	s := report.Section{
		Name:  "memory",
		Title: fmt.Sprintf("In process memory, %s keys", report.Figure(float64(keys))),
		Notes: []string{"Our rows hash the subject from the same string that the peers take as their key, unless the key is hot and its hash is still known, and fill a whole decision; the reference is the fastest peer of each column.",
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
func Keys(b *lab.Bench) report.Section {
	keys := b.Size(10_000_000)
	s := report.Section{Name: "keys", Title: fmt.Sprintf("What %s keys cost", report.Figure(float64(keys)))}
	t := report.NewTable("Bytes per key, keys included, and the time of a full garbage collection",
		report.Less.In("B/key", "heap", "resident", "own account"), report.Less.In("ms", "full GC"))
	s.Tables = []*report.Table{t}
	for _, c := range limiter.InMemory {
		b.Step("%s", c.Name)
		w, need := weighKeys(b, c, keys)
		if need > mostWeight {
			s.Notes = append(s.Notes, fmt.Sprintf("Left out: %s would need about %d MiB, more than %d.", c.Name, need>>20, mostWeight>>20))
		}
		t.Add(c.Name, c.Role, 0, perKey(w, keys)...)
	}
	t.AgainstBestPeer()
	// What the store and the heap account for, and what the process takes from the machine, including the runtime's own
	// needs.
	accounted := t.Value(limiter.Headline, heap)
	if v := t.Value(limiter.Headline, own); v > accounted { // memory that is not on the heap
		accounted = v
	}
	s.AtMost("keys: bytes per key, by the heap or its own account", 40, accounted, " B")
	s.AtMost("keys: bytes per key, resident", 40, t.Value(limiter.Headline, resident), " B")
	s.AtMost("keys: full GC vs the peer with the fastest", 1.0/50, 1/t.Ratio(limiter.Headline, collection), "×")
	return s
}

// weighKeys fills a tenth of the keys and, if there is enough memory for all, the others. Otherwise the weight is zero.
func weighKeys(b *lab.Bench, c limiter.Contestant, keys int) (w limiter.Weight, need int64) {
	b.Scope(func() {
		child := limiter.Spawn(b, c, limiter.Roomy)
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

const (
	// budget is what the process may take for hugeKeys.
	budget   = 20 << 30
	hugeKeys = 500_000_000

	// mostPerKey is how many resident bytes a key may take: the budget, without what the runtime needs.
	mostPerKey = float64(budget-(256<<20)) / hugeKeys
)

// Huge fills our store with a number of keys that other limiters have no memory for.
func Huge(b *lab.Bench) report.Section {
	keys := b.HugeKeys
	need := int64(float64(keys)*mostPerKey) + 256<<20
	if available := memoryAvailable(); available < need {
		lab.Check(fmt.Errorf("%s keys need about %.1f GiB, and this machine has %.1f available: choose fewer with -keys", report.Figure(float64(keys)), gib(need), gib(available)))
	}
	limit := limiter.Roomy
	limit.MaxBytes = max(need/4*5, 1<<30) // a bound that is not reached: close to it, keys share counters
	child := limiter.Spawn(b, limiter.Find(limiter.InMemory, limiter.Headline), limit)
	const steps = 20
	start := time.Now()
	for i := range steps {
		b.Step("%s of %s keys after %v", report.Figure(float64(keys*i/steps)), report.Figure(float64(keys)), time.Since(start).Round(time.Second))
		child.Fill(keys*i/steps, keys*(i+1)/steps)
	}
	inserting := time.Since(start)
	var perDecision [2]float64
	for i := range perDecision {
		b.Step("decide, %d core", i+1)
		ran := child.Run(limiter.Run{Pattern: limiter.Uniform, Procs: i + 1, Duration: b.Cell(5 * time.Second)})
		if ran.Allowed != ran.Calls {
			lab.Check(fmt.Errorf("%d of %d decisions were denied; the limit has room for all", ran.Calls-ran.Allowed, ran.Calls))
		}
		perDecision[i] = ran.PerCall()
	}
	b.Step("weigh")
	w := child.Weigh(collections)
	if w.Keys != int64(keys) {
		lab.Check(fmt.Errorf("the store has %d keys, want %d: some share a counter for lack of memory", w.Keys, keys))
	}
	weight := perKey(w, keys)
	t := report.NewTable("Filling, deciding on random keys, and collecting garbage",
		report.More.In("/s", "inserts, all cores"), report.Less.In("B/key", "resident"), report.Less.In("GiB", "process"),
		report.Less.In("ns", "decision, 1 core", "decision, 2 core"), report.Less.In("ms", "full GC", "longest GC pause"))
	t.Add(limiter.Headline, report.Ours, 0, float64(keys)/inserting.Seconds(), weight[resident], gib(w.Process),
		perDecision[0], perDecision[1], weight[collection], w.Pause.Seconds()*1e3)
	s := report.Section{Name: "huge", Title: fmt.Sprintf("%s live keys in one process", report.Figure(float64(keys))), Tables: []*report.Table{t}}
	s.AtMost(fmt.Sprintf("huge: memory of the process with %s live keys", report.Figure(float64(keys))),
		gib(budget)*float64(keys)/hugeKeys, gib(w.Process), " GiB")
	return s
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// memoryAvailable returns how much memory this machine can still give, in bytes.
func memoryAvailable() int64 {
	var kib int64
	text, _ := os.ReadFile("/proc/meminfo") // elsewhere than on Linux it has to be tried
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 1 << 62
	}
	return kib << 10
}

package section

import (
	"fmt"
	"runtime"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/rules"
)

// few is the size of the reference set.
const few = 10

// hits are how many rules match a request, one column each.
var hits = []int{0, 1, kinds}

// crowds are numbers of different clients, one table each: few, whose rules stay in the processor's caches, and
// many that are spread over all rules.
var crowds = []struct {
	title   string
	callers int
}{
	{"callers come again and again", 64},
	{"callers are spread over all rules", 4096},
}

// A ruleSet is a number of rules with requests for each of the columns.
type ruleSet struct {
	name     string
	snapshot *rules.Snapshot
	calls    [][]penstock.Call // by column
	costs    []float64         // bytes of heap per rule, ms to parse, ms to compile
}

// Rules measures how long it takes to find the rules that apply to a request, among ten and among a hundred thousand,
// what a rule costs in memory, and how long compiling takes. It has no peers: the reference is the same index with ten
// rules.
func Rules(b *lab.Bench) report.Section {
	s := report.Section{Name: "rules", Title: "Finding the rules of a call", Notes: []string{
		"A fifth of the rules each: by user, by path, by tenant and resource, by network, by the end of the host name. Calls have eight attributes.",
	}}
	cost := report.NewTable("What a set costs", report.Less.In("B/rule", "heap"), report.Less.In("ms", "parse", "compile"))
	var sets []*ruleSet
	for _, n := range []int{few, 1000, b.Size(100_000)} {
		b.Step("compile %d", n)
		set := prepareRules(n)
		sets = append(sets, set)
		cost.Add(set.name, report.Ours, 0, set.costs...)
	}
	largest := sets[len(sets)-1].name
	for _, c := range crowds {
		s.Tables = append(s.Tables, report.NewTable(fmt.Sprintf("Time of a match, by how many rules match the call; %s (%d)", c.title, c.callers),
			report.Less.In("ns", "0", "1", fmt.Sprint(kinds))).Against(sets[0].name))
	}
	for range b.Repeat {
		for crowd := range crowds {
			for column := range hits {
				for _, set := range sets {
					b.Step("%s, %d match", set.name, hits[column])
					s.Tables[crowd].Add(set.name, report.Ours, column, set.matchTime(crowd, column, b.Cell(500*time.Millisecond)))
				}
			}
		}
	}
	for crowd, c := range crowds {
		for column, n := range hits {
			s.AtMost(fmt.Sprintf("rules: a match of %d, %s vs %d, %s", n, largest, few, c.title), 2, 1/s.Tables[crowd].Ratio(largest, column), "×")
		}
	}
	s.Tables = append(s.Tables, cost)
	s.AtMost("rules: parse and compile "+largest, 10, (cost.Value(largest, 1)+cost.Value(largest, 2))/1e3, " s")
	return s
}

// prepareRules compiles a set from its text, as a node does.
func prepareRules(size int) *ruleSet {
	text := rulesText(size)
	set := &ruleSet{name: fmt.Sprintf("%d rules", size)}
	before := inUse()
	start := time.Now()
	doc := lab.Must(rules.Parse("rules.yaml", text))
	parsed := time.Now()
	snapshot, _, err := rules.Compile(doc, rules.Options{})
	lab.Check(err)
	compiled := time.Now()
	set.snapshot = snapshot
	set.costs = []float64{float64(inUse()-before) / float64(size), parsed.Sub(start).Seconds() * 1e3, compiled.Sub(parsed).Seconds() * 1e3}
	runtime.KeepAlive(text)
	for _, n := range hits {
		set.calls = append(set.calls, callsOf(size, n, crowds[len(crowds)-1].callers))
	}
	return set
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// matchTime returns the nanoseconds of a match of the column's requests: the median of short rounds, because other
// processes on the machine can only slow some of them down.
func (s *ruleSet) matchTime(crowd, column int, cell time.Duration) float64 {
	const round = 256
	calls := s.calls[column][:crowds[crowd].callers]
	var m rules.Match
	var rounds []float64
	next := 0
	for begin := time.Now(); time.Since(begin) < cell || len(rounds) < 3; {
		start := time.Now()
		for range round {
			call := &calls[next%len(calls)]
			s.snapshot.Match(call, 1, &m)
			if len(m.Rules) != hits[column] {
				lab.Check(fmt.Errorf("%s: %d match %+v, want %d", s.name, len(m.Rules), call, hits[column]))
			}
			next++
		}
		rounds = append(rounds, float64(time.Since(start).Nanoseconds())/round)
	}
	return report.Median(rounds)
}

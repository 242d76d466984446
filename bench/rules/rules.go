// Package rules measures how long it takes to find the rules that apply to a request, among ten and among a
// hundred thousand, what a rule costs in memory, and how long compiling takes.
//
// It is separate because it has no peers: the reference is the same index with ten rules.
package rules

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/rules"
)

// Options configure how much is measured.
type Options struct {
	Rules  int           // in the largest set
	Cell   time.Duration // of matches
	Repeat int
	Stderr *os.File // for progress
}

// few is the size of the reference set.
const few = 10

// hits are how many rules match a request, one column each.
var hits = []int{0, 1, kinds}

// Columns of the table of costs.
const (
	heap = iota
	parsing
	compiling
)

// crowds are numbers of different clients, one table each: few, whose rules stay in the processor's caches, and
// many that are spread over all rules.
var crowds = []struct {
	title   string
	callers int
}{
	{"callers come again and again", 64},
	{"callers are spread over all rules", 4096},
}

// A set is a number of rules with requests for each of the columns.
type set struct {
	name     string
	snapshot *rules.Snapshot
	calls    [][]penstock.Call // by column
	ns       [][][]float64     // by crowd and column, a figure for each repeat
	costs    []float64
}

// Measure runs the benchmark.
func Measure(o Options) (report.Section, error) {
	sizes := []int{few, 1000, o.Rules}
	progress := report.Begin(o.Stderr, "rules", len(sizes)*(1+o.Repeat*len(crowds)*len(hits)))
	defer progress.End()
	s := report.Section{Name: "rules", Title: "Finding the rules of a call", Notes: []string{
		"A fifth of the rules each: by user, by path, by tenant and resource, by network, by the end of the host name. Calls have eight attributes.",
	}}
	var sets []*set
	for _, size := range sizes {
		progress.Step("compile %d", size)
		made, err := prepare(size)
		if err != nil {
			return s, fmt.Errorf("%d rules: %w", size, err)
		}
		sets = append(sets, made)
	}
	for range o.Repeat {
		for crowd := range crowds {
			for column := range hits {
				for _, set := range sets {
					progress.Step("%s, %d match", set.name, hits[column])
					ns, err := set.time(crowd, column, o.Cell)
					if err != nil {
						return s, err
					}
					set.ns[crowd][column] = append(set.ns[crowd][column], ns)
				}
			}
		}
	}
	most := sets[len(sets)-1].name
	for crowd := range crowds {
		t := speeds(sets, crowd)
		s.Tables = append(s.Tables, t)
		s.Goals = append(s.Goals, speedGoals(&t, crowd, most)...)
	}
	t := costs(sets)
	s.Tables = append(s.Tables, t)
	s.Goals = append(s.Goals, report.Goal{
		Name:  fmt.Sprintf("rules: parse and compile %s", most),
		Bound: report.AtMost, Want: 10, Measured: (t.Value(most, parsing) + t.Value(most, compiling)) / 1e3, Unit: " s",
	})
	return s, nil
}

func speeds(sets []*set, crowd int) report.Table {
	t := report.Table{Title: fmt.Sprintf("Time of a match, by how many rules match the call; %s (%d)", crowds[crowd].title, crowds[crowd].callers)}
	for _, n := range hits {
		t.Columns = append(t.Columns, report.Column{Name: fmt.Sprint(n), Unit: "ns", Better: report.Less, Against: sets[0].name})
	}
	for _, set := range sets {
		row := report.Row{Name: set.name, Role: report.Ours}
		for column := range hits {
			row.Values = append(row.Values, report.Median(set.ns[crowd][column]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func speedGoals(t *report.Table, crowd int, most string) (all []report.Goal) {
	for column, n := range hits {
		all = append(all, report.Goal{
			Name:  fmt.Sprintf("rules: a match of %d, %s vs %d, %s", n, most, few, crowds[crowd].title),
			Bound: report.AtMost, Want: 2, Measured: 1 / t.Ratio(most, column), Unit: "×",
		})
	}
	return all
}

func costs(sets []*set) report.Table {
	t := report.Table{
		Title: "What a set costs",
		Columns: []report.Column{
			heap:      {Name: "heap", Unit: "B/rule", Better: report.Less},
			parsing:   {Name: "parse", Unit: "ms", Better: report.Less},
			compiling: {Name: "compile", Unit: "ms", Better: report.Less},
		},
	}
	for _, set := range sets {
		t.Rows = append(t.Rows, report.Row{Name: set.name, Role: report.Ours, Values: set.costs})
	}
	return t
}

// prepare compiles a set from its text, as a node does.
func prepare(size int) (*set, error) {
	text := document(size)
	made := &set{name: fmt.Sprintf("%d rules", size), costs: make([]float64, 3)}
	for range crowds {
		made.ns = append(made.ns, make([][]float64, len(hits)))
	}
	before := inUse()
	start := time.Now()
	doc, err := rules.Parse("rules.yaml", text)
	if err != nil {
		return nil, err
	}
	parsed := time.Now()
	made.snapshot, _, err = rules.Compile(doc, rules.Options{})
	if err != nil {
		return nil, err
	}
	made.costs[parsing] = parsed.Sub(start).Seconds() * 1e3
	made.costs[compiling] = time.Since(parsed).Seconds() * 1e3
	made.costs[heap] = float64(inUse()-before) / float64(size)
	runtime.KeepAlive(text)
	for _, n := range hits {
		made.calls = append(made.calls, callsOf(size, n, crowds[len(crowds)-1].callers))
	}
	return made, nil
}

// MatchTime returns the nanoseconds of a match of five rules among that many, with clients spread over all.
func MatchTime(size int, cell time.Duration) (float64, error) {
	s, err := prepare(size)
	if err != nil {
		return 0, err
	}
	return s.time(len(crowds)-1, len(hits)-1, cell)
}

func inUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// time returns the nanoseconds of a match of the column's requests: the median of short rounds, because other
// processes on the machine can only slow some of them down.
func (s *set) time(crowd, column int, cell time.Duration) (float64, error) {
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
				return 0, fmt.Errorf("%s: %d match %+v, want %d", s.name, len(m.Rules), call, hits[column])
			}
			next++
		}
		rounds = append(rounds, float64(time.Since(start).Nanoseconds())/round)
	}
	return report.Median(rounds), nil
}

package section

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
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
		set := prepareRules(n, b.Size(weighed))
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

// weighed is how many rules are weighed at least: a few weigh less than what earlier sections may still release.
const weighed = 50_000

// prepareRules compiles a set from its text, as a node does, as often as it takes to weigh this many rules.
func prepareRules(size, weighed int) *ruleSet {
	text := rulesText(0, size)
	set := &ruleSet{name: fmt.Sprintf("%d rules", size), calls: columnsOf(size)}
	before := inUse()
	start := time.Now()
	doc := lab.Must(rules.Parse("rules.yaml", text))
	parsed := time.Now()
	snapshot, _, err := rules.Compile(doc, rules.Options{})
	lab.Check(err)
	compiled := time.Now()
	set.snapshot = snapshot
	copies := make([]*rules.Snapshot, weighed/size)
	for i := range copies {
		copies[i], _, err = rules.Compile(doc, rules.Options{})
		lab.Check(err)
	}
	heap := float64(inUse()-before) / float64(size*(1+len(copies)))
	runtime.KeepAlive(copies)
	set.costs = []float64{heap, parsed.Sub(start).Seconds() * 1e3, compiled.Sub(parsed).Seconds() * 1e3}
	runtime.KeepAlive(text)
	return set
}

// perFile is how many rules a file has at most. A list in a file may have twice as many items.
const perFile = 100_000

// compileRules compiles a set of any size from several files. It does not weigh it.
func compileRules(size int) *ruleSet {
	var files []rules.File
	for from := 0; from < size; from += perFile {
		files = append(files, rules.File{Name: fmt.Sprintf("%d.yaml", from), Data: rulesText(from, min(from+perFile, size))})
	}
	snapshot, _, err := rules.CompileFiles(files, rules.Options{})
	lab.Check(err)
	return &ruleSet{name: fmt.Sprintf("%d rules", size), snapshot: snapshot, calls: columnsOf(size)}
}

// columnsOf returns requests for each of the columns.
func columnsOf(size int) (calls [][]penstock.Call) {
	for _, n := range hits {
		calls = append(calls, callsOf(size, n, crowds[len(crowds)-1].callers))
	}
	return calls
}

// inUse returns the bytes in use on the heap, once a collection frees no more: what earlier sections left, pools and
// finalizers release in several.
func inUse() int64 {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapAlloc {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapAlloc >= before {
			return int64(m.HeapAlloc)
		}
	}
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

// kinds is the number of forms in which rules are written here. A request can match one rule of each.
const kinds = 5

// resources is how many rules of the third kind a tenant has.
const resources = 100

// rulesText returns the rules with numbers from one up to, but not including, another: the kinds in turn. The first
// text also declares the attributes.
func rulesText(from, to int) []byte {
	var b strings.Builder
	if from == 0 {
		b.WriteString("attributes:\n  user: {header: X-User}\n  tenant: {header: X-Tenant}\n  resource: {header: X-Resource}\n")
	}
	b.WriteString("rules:\n")
	for i := from; i < to; i++ {
		n := i / kinds
		var match, key string
		switch i % kinds {
		case 0:
			match, key = fmt.Sprintf("attributes: {user: user-%d}", n), "user"
		case 1:
			match, key = fmt.Sprintf("method: [GET, POST], path: '/v1/things-%d/{rest...}'", n), "ip"
		case 2:
			match, key = fmt.Sprintf("attributes: {tenant: tenant-%d, resource: resource-%d}", n/resources, n%resources), "tenant"
		case 3:
			match, key = fmt.Sprintf("attributes: {ip: %s/28}", address(n, 0)), "ip"
		case 4:
			match, key = fmt.Sprintf("attributes: {host: '*.%d.example.com'}", n), "host"
		}
		fmt.Fprintf(&b, "  - {name: rule-%d, match: {%s}, key: [%s], limits: [%d/1m]}\n", i, match, key, 100+i%50)
	}
	return []byte(b.String())
}

// address returns an address in the network with a number. Each network has 16.
func address(network, host int) string {
	n := network<<4 | host&15
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// callsOf returns requests that each match hits rules: one of each kind, one of any kind, or none.
func callsOf(size, hits, calls int) []penstock.Call {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]penstock.Call, calls)
	for i := range all {
		only := random.IntN(kinds)
		// n returns which rule of a kind the request matches; beyond the last means none.
		n := func(kind int) int {
			if hits == kinds || hits == 1 && kind == only {
				return random.IntN(size / kinds)
			}
			return size/kinds + random.IntN(size/kinds)
		}
		tenant := n(2)
		if tenant >= size/kinds {
			tenant += resources // the last tenant may have fewer rules
		}
		all[i] = penstock.Call{Cost: 1, Attributes: []penstock.Attribute{
			{Name: "method", Value: "GET"},
			{Name: "path", Value: fmt.Sprintf("/v1/things-%d/items/%d", n(1), i)},
			{Name: "host", Value: fmt.Sprintf("api.%d.example.com", n(4))},
			{Name: "ip", Value: address(n(3), i)},
			{Name: "user", Value: fmt.Sprintf("user-%d", n(0))},
			{Name: "tenant", Value: fmt.Sprintf("tenant-%d", tenant/resources)},
			{Name: "resource", Value: fmt.Sprintf("resource-%d", tenant%resources)},
			{Name: "agent", Value: "a browser"},
		}}
	}
	return all
}

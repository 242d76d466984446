package section

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Scale measures how the cost of a decision grows: with the limits of a request, with keys, with rules and with nodes.
// Each table is a curve; its rows are points.
func Scale(b *lab.Bench) report.Section {
	s := report.Section{Name: "scale", Title: "How the cost of a decision grows"}
	server, cell := b.Redis(), b.Cell(2*time.Second)
	curve := func(title, unit string, figures []string, points []int, measure func(n int) []float64) {
		t := report.NewTable(title, report.Less.In(unit, figures...))
		for _, n := range points {
			b.Step("%s: %d", title, n)
			b.Scope(func() { t.Add(shortCount(n), report.Ours, 0, measure(n)...) })
		}
		s.Tables = append(s.Tables, t)
	}
	curve("Limits per request", "µs", []string{"memory", "Redis, CPU of Redis"}, steps(1, b.Size(64), 2), func(n int) []float64 { return byLimits(b, server, n, cell) })
	b.Scope(func() {
		limit := limiter.Roomy
		limit.MaxBytes = 8 << 30 // room for the longest curve
		child := limiter.Spawn(b, limiter.Find(limiter.InMemory, limiter.Headline), limit)
		curve("Keys in memory", "ns", []string{"1 core", "2 core"}, steps(1000, b.Size(100_000_000), 10), func(n int) (values []float64) {
			child.Fill(n/10, n) // the tenth is the point before
			for procs := 1; procs <= 2; procs++ {
				values = append(values, child.Run(limiter.Run{Pattern: limiter.Uniform, Procs: procs, Duration: cell}).PerCall())
			}
			return values
		})
	})
	curve("Rules, of which five match", "ns", []string{"match"}, steps(10, b.Size(1_000_000), 10), func(n int) []float64 {
		return []float64{compileRules(n).matchTime(len(crowds)-1, len(hits)-1, cell)}
	})
	curve("Nodes that share one key", "µs", []string{"exact: nodes and clients", "exact: Redis", "leased: nodes and clients", "leased: Redis"},
		steps(1, b.Size(64), 2), func(n int) []float64 { return byNodes(b, server, n, cell) })
	return s
}

func steps(first, last, factor int) (all []int) {
	for n := first; n <= last; n *= factor {
		all = append(all, n)
	}
	return all
}

// shortCount writes thousands and millions in short.
func shortCount(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

// compile compiles the text of rules.
func compile(text string) *rules.Snapshot {
	s, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text)}}, rules.Options{Secret: "of the benchmark"})
	lab.Check(err)
	return s
}

// byLimits decides requests to which that many rules apply, one limit each: by one goroutine in memory, and by many on
// Redis. It returns the time of the one, and the processor time of Redis of the other, in µs.
func byLimits(b *lab.Bench, server lab.Redis, n int, cell time.Duration) []float64 {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {name: rule-%d, key: [user], limits: [{rate: 100000000/366d, algorithm: token_bucket}]}\n", i)
	}
	snapshot := compile(text.String())
	shared := b.Store(server.Addr)
	const callers = 64
	alone := decide(b, b.Memory(memstore.Options{}), snapshot, 1, cell)
	decide(b, shared, snapshot, callers, cell/4) // creates the keys
	before := server.CPU()
	many := decide(b, shared, snapshot, callers, cell)
	return []float64{cell.Seconds() * 1e6 / float64(alone), (server.CPU() - before) * 1e6 / float64(many)}
}

// decide decides requests of users in turn until the time is up, and returns how many.
func decide(b *lab.Bench, store penstock.Store, s *rules.Snapshot, callers int, cell time.Duration) int64 {
	const users = 1000
	e := lab.Must(engine.New(engine.Options{Store: store, Rules: engine.Fixed(s)}))
	names := lab.Keys(users)
	return lab.Must(lab.ClosedLoop{Callers: callers, Duration: cell, Unwatched: true}.Run(b, func(i int) func(int) error {
		var v penstock.Verdict
		call := &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user"}}}
		return func(n int) error {
			call.Attributes[0].Value = names[(n*callers+i)%users]
			err := e.Decide(b, call, &v)
			if err == nil && !v.Allowed {
				err = errors.New("denied, but the limits have room for all")
			}
			return err
		}
	})).Decisions
}

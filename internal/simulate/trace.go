package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// A Trace is a few requests whose decisions are shown one by one.
type Trace struct {
	Name     string
	Help     string
	Count    int64
	Arrivals []time.Duration // after the beginning of a minute
}

func seconds(all ...float64) (arrivals []time.Duration) {
	for _, s := range all {
		arrivals = append(arrivals, time.Duration(s*float64(time.Second)))
	}
	return arrivals
}

func repeat(s float64, n int) (all []float64) {
	for range n {
		all = append(all, s)
	}
	return all
}

// Traces are traces on which algorithms differ.
var Traces = []Trace{
	{"overlap", "six requests that crowd the end of a minute, three in the next: fixed window, log and counter reject 0, 2 and 1", 6, seconds(10, 25, 35, 45, 50, 55, 80, 80, 80)},
	{"boundary", "a burst of the whole limit before the end of a minute and another after it: a fixed window admits both", 5, seconds(append(repeat(59, 5), repeat(61, 5)...)...)},
	{"race", "two nodes count the same client: one that reads and then writes loses a request, an atomic one does not", 10, seconds(repeat(10, 8)...)},
}

// traceAlgorithms are the algorithms compared on a trace.
var traceAlgorithms = []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket}

// A TraceResult is how the algorithms decide a trace.
type TraceResult struct {
	Trace string      `json:"trace"`
	Lanes []TraceLane `json:"lanes"`
	Naive []int64     `json:"read_then_write,omitempty"` // for the trace race: the counter that each of two nodes wrote
	trace *Trace
}

// A TraceLane is how one algorithm decides.
type TraceLane struct {
	Algorithm string  `json:"algorithm"`
	Allowed   []bool  `json:"allowed"`
	Used      []int64 `json:"used"`
	Rejected  int     `json:"rejected"`
}

// RunTrace decides a trace by each algorithm.
func RunTrace(ctx context.Context, name string, newStore func() (Store, error)) (*TraceResult, error) {
	var names []string
	for i := range Traces {
		if Traces[i].Name == name {
			return Traces[i].run(ctx, newStore)
		}
		names = append(names, Traces[i].Name)
	}
	return nil, fmt.Errorf("unknown trace %q; known are %v", name, names)
}

func (t *Trace) run(ctx context.Context, newStore func() (Store, error)) (*TraceResult, error) {
	result := &TraceResult{Trace: t.Name, trace: t}
	for _, algorithm := range traceAlgorithms {
		s := &Simulation{Traffic: Traffic{Model: Poisson, Rate: 1, Keys: 1}, Nodes: 2, Sharing: Shared, NewStore: newStore}
		l := &limitRun{Simulation: s, limit: penstock.Limit{Algorithm: algorithm, Count: t.Count, Window: time.Minute}}
		defer l.close()
		if err := l.open(); err != nil {
			return nil, err
		}
		out := TraceLane{Algorithm: algorithm.String()}
		for i, after := range t.Arrivals {
			l.clock.Store(int64(penstock.InstantOf(start.Add(after))))
			var v penstock.Verdict
			call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "key", Value: "k"}}}
			if err := l.nodes[i%2].Decide(ctx, &call, &v); err != nil {
				return nil, err
			}
			out.Allowed, out.Used = append(out.Allowed, v.Allowed), append(out.Used, v.Decision.Used)
			if !v.Allowed {
				out.Rejected++
			}
		}
		result.Lanes = append(result.Lanes, out)
	}
	if t.Name == "race" {
		result.Naive = race(6)
	}
	return result, nil
}

// race returns what two nodes write to a counter that both read before either writes.
func race(counter int64) (written []int64) {
	first, second := counter, counter // both read
	for _, read := range []int64{first, second} {
		counter = read + 1 // and each writes the value it read plus one
		written = append(written, counter)
	}
	return written
}

// Page returns the result for people.
func (r *TraceResult) Page() *toolreport.Page {
	p := &toolreport.Page{Title: "Trace " + r.Trace}
	p.Addf("%s. The limit is %d a minute.", r.trace.Help, r.trace.Count)
	t := &toolreport.Table{Columns: []string{"algorithm"}}
	for _, at := range r.trace.Arrivals {
		t.Columns = append(t.Columns, at.String())
	}
	t.Columns = append(t.Columns, "rejected")
	for _, l := range r.Lanes {
		row := []any{l.Algorithm}
		for i := range l.Allowed {
			cell := fmt.Sprint(l.Used[i])
			if !l.Allowed[i] {
				cell = "✗"
			}
			row = append(row, cell)
		}
		t.Row(append(row, l.Rejected)...)
	}
	p.Add(t, toolreport.Text("Each cell is what is used after the request; ✗ is a denial."))
	if r.Naive != nil {
		p.Addf("Read, then write: two nodes read 6 and write %d and %d, and one request is not counted. Penstock's nodes share one atomic step: the seventh and eighth request are counted as 7 and 8.", r.Naive[0], r.Naive[1])
	}
	return p
}

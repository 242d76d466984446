package keys

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/report"
)

const (
	// budget is what the process may take for hugeKeys.
	budget   = 20 << 30
	hugeKeys = 500_000_000

	// mostPerKey is how many resident bytes a key may take: the budget, without what the runtime needs.
	mostPerKey = float64(budget-(256<<20)) / hugeKeys
)

// MeasureHuge fills our store with a number of keys that other limiters have no memory for. Options.Cell is the time of
// decisions on each number of cores.
func MeasureHuge(o Options) (s report.Section, err error) {
	need := int64(float64(o.Keys)*mostPerKey) + 256<<20
	if available := memoryAvailable(); available < need {
		return s, fmt.Errorf("%s keys need about %.1f GiB, and this machine has %.1f available: choose fewer with -keys", report.Figure(float64(o.Keys)), gib(need), gib(available))
	}
	child, err := inprocess.Spawn(inprocess.Headline)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, child.Close()) }()
	limit := inprocess.Roomy
	limit.MaxBytes = max(need/4*5, 1<<30) // a bound that is not reached: close to it, keys share counters
	if err := child.Open(limit); err != nil {
		return s, err
	}
	inserting, err := fillHuge(child, o)
	if err != nil {
		return s, err
	}
	var perDecision [2]float64
	for i := range perDecision {
		ran, err := child.Run(inprocess.Run{Pattern: inprocess.Uniform, Procs: i + 1, Duration: o.Cell})
		if err != nil {
			return s, err
		}
		if ran.Allowed != ran.Calls {
			return s, fmt.Errorf("%d of %d decisions were denied; the limit has room for all", ran.Calls-ran.Allowed, ran.Calls)
		}
		perDecision[i] = ran.PerCall()
	}
	w, err := child.Weigh(collections)
	if err != nil {
		return s, err
	}
	if w.Keys != int64(o.Keys) {
		return s, fmt.Errorf("the store has %d keys, want %d: some share a counter for lack of memory", w.Keys, o.Keys)
	}
	weight := values(w, o.Keys)
	s = report.Section{Name: "huge", Title: fmt.Sprintf("%s live keys in one process", report.Figure(float64(o.Keys))), Tables: []report.Table{{
		Title: "Filling, deciding on random keys, and collecting garbage",
		Columns: []report.Column{
			{Name: "inserts, all cores", Unit: "/s", Better: report.More},
			{Name: "resident", Unit: "B/key", Better: report.Less},
			{Name: "process", Unit: "GiB", Better: report.Less},
			{Name: "decision, 1 core", Unit: "ns", Better: report.Less},
			{Name: "decision, 2 core", Unit: "ns", Better: report.Less},
			{Name: "full GC", Unit: "ms", Better: report.Less},
			{Name: "longest GC pause", Unit: "ms", Better: report.Less},
		},
		Rows: []report.Row{{Name: inprocess.Headline, Role: report.Ours, Values: []float64{
			float64(o.Keys) / inserting.Seconds(), weight[resident], gib(w.Process), perDecision[0], perDecision[1], weight[collection], w.Pause.Seconds() * 1e3,
		}}},
	}}}
	s.Goals = []report.Goal{{
		Name:  fmt.Sprintf("huge: memory of the process with %s live keys", report.Figure(float64(o.Keys))),
		Bound: report.AtMost, Want: gib(budget) * float64(o.Keys) / hugeKeys, Measured: gib(w.Process), Unit: " GiB",
	}}
	return s, nil
}

// fillHuge fills in steps, to say how far it is.
func fillHuge(child *inprocess.Child, o Options) (took time.Duration, err error) {
	const steps = 20
	for i := range steps {
		start := time.Now()
		if err := child.Fill(o.Keys*i/steps, o.Keys*(i+1)/steps); err != nil {
			return took, err
		}
		step := time.Since(start)
		took += step
		if o.Stderr != nil {
			fmt.Fprintf(o.Stderr, "huge: %s of %s keys, %.0f ns an insert\n", report.Figure(float64(o.Keys*(i+1)/steps)), report.Figure(float64(o.Keys)), float64(step.Nanoseconds())/float64(o.Keys/steps))
		}
	}
	return took, nil
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

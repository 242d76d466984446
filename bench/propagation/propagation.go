// Package propagation measures how long a change of the rules takes from its acknowledged save until three nodes
// serve it: with notifications from PostgreSQL, with notifications from Redis, and by polling alone.
//
// It is separate because it has no peers and needs a database besides Redis.
package propagation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/pgtest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Options configure how much is measured.
type Options struct {
	Changes  int           // of each way and repeat
	Rules    int           // in the document
	Interval time.Duration // of nodes that poll
	Repeat   int
	Stderr   *os.File // for progress
}

const (
	nodes = 3
	// target is how long a change may take if nodes are notified.
	target = 100 * time.Millisecond
	// never is an interval longer than any run.
	never = 24 * time.Hour
)

// Columns of the table.
const (
	median = iota
	p99
	worst
)

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	postgres, err := pgtest.Launch(ctx, "fsync=on")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	redis, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, redis.Close()) }()

	asking := fmt.Sprintf("asking PostgreSQL every %v", o.Interval)
	ways := []*way{
		{name: "told by PostgreSQL", interval: never},
		{name: "told by Redis", interval: never, redis: redis.Addr},
		{name: asking, interval: o.Interval, deaf: true},
	}
	progress := report.Begin(o.Stderr, "propagation", len(ways)*o.Repeat)
	defer progress.End()
	for range o.Repeat {
		for _, w := range ways {
			progress.Step("%s", w.name)
			source, err := postgres.Database(ctx)
			if err != nil {
				return s, err
			}
			if err := w.measure(ctx, source, o); err != nil {
				return s, fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	s = report.Section{Name: "propagation", Title: "From a saved change to three nodes that serve it", Notes: []string{
		fmt.Sprintf("%d rules, %d changes each; parsing and compiling on all nodes, which share this machine, is part of the time.", o.Rules, o.Changes*o.Repeat),
	}}
	t := table(ways)
	s.Tables = []report.Table{t}
	for _, w := range ways {
		want := target
		if w.deaf {
			want += o.Interval
		}
		s.Goals = append(s.Goals, report.Goal{
			Name: "propagation: " + w.name + ", p99", Bound: report.Below, Want: ms(want), Measured: t.Value(w.name, p99), Unit: " ms",
		})
	}
	return s, nil
}

func table(ways []*way) report.Table {
	t := report.Table{Title: "Time until all three serve it"}
	for _, name := range []string{"median", "p99", "worst"} {
		t.Columns = append(t.Columns, report.Column{Name: name, Unit: "ms", Better: report.Less})
	}
	for _, w := range ways {
		all := slices.Sorted(slices.Values(w.took))
		t.Rows = append(t.Rows, report.Row{Name: w.name, Role: report.Ours, Values: []float64{
			median: report.Median(all), p99: all[(len(all)*99+99)/100-1], worst: all[len(all)-1],
		}})
	}
	return t
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pause keeps changes from synchronising with the polling nodes.
func (o *Options) pause() time.Duration { return rand.N(o.Interval) }

// document returns a set of rules that differs from one change to the next.
func document(change int64, rules int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# change %d\nrules:\n", change)
	for i := range rules {
		fmt.Fprintf(&b, "  - name: rule-%d\n    match: {path: '/v%d/things/{id}'}\n    key: [ip]\n    limits: [%d/1m, 1000/1h]\n", i, i, 1+change)
	}
	return []byte(b.String())
}

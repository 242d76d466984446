package hot

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
)

// Rows.
const (
	exact  = "exact"
	leased = "leased"
	cached = "cached deny"
)

// A path is a path by which requests are decided on one node.
type path struct {
	name, path string
	passes     bool
}

var (
	ways   = []path{{exact, exactPath, true}, {leased, leasedPath, true}, {cached, deniedPath, false}}
	crowds = []int{2, 64, most} // numbers of clients
)

const (
	most = 512 // clients of the costs
	some = 64  // clients for the latency goal

	caller = "along the paths" // the user of all requests
)

// by names a figure for that many clients.
func by(figure string, callers int) string { return fmt.Sprintf("%s, %d callers", figure, callers) }

func (b *bench) alongPaths(ctx context.Context) error {
	for _, callers := range crowds {
		for _, w := range ways {
			b.progress.Step("%d callers: %s", callers, w.name)
			if err := b.along(ctx, w, callers); err != nil {
				return fmt.Errorf("%s, %d callers: %w", w.name, callers, err)
			}
		}
	}
	return nil
}

func (b *bench) along(ctx context.Context, w path, callers int) error {
	s, c, err := b.run(ctx, load{
		nodes: []penstock.Decider{b.nodes[0]}, callers: callers,
		path: w.path, user: caller, duration: b.options.Cell, window: roomyWindow,
	})
	if err != nil {
		return err
	}
	want := int64(0)
	if w.passes {
		want = s.decisions
	}
	if n := s.admitted(); n != want {
		return fmt.Errorf("%d of %d calls passed, and %d should have", n, s.decisions, want)
	}
	b.Add(w.name, by(rate, callers), s.perSecond())
	b.Add(w.name, by(p50, callers), s.micros(50))
	b.Add(w.name, by(p99, callers), s.micros(99))
	if callers == most {
		b.noteCost(w.name, c)
	}
	return nil
}

func (b *bench) addPaths(s *report.Section) {
	speed := b.pathTable("Decisions a second on one node, by number of callers", columnsBy(rate, report.Column{Unit: "/s", Better: report.More}))
	wait := b.pathTable("What callers wait", append(
		columnsBy(p50, report.Column{Unit: "µs", Better: report.Less}),
		columnsBy(p99, report.Column{Unit: "µs", Better: report.Less})...))
	s.Tables = append(s.Tables, speed, wait, b.pathTable(fmt.Sprintf("What a decision costs Redis, %d callers", most), costs))

	for _, w := range ways {
		s.Goals = append(s.Goals, report.Goal{
			Name: fmt.Sprintf("hot: p99, %s, %d callers", w.name, some), Bound: report.Below, Want: 2, Unit: " ms",
			Measured: b.Median(w.name, by(p99, some)) / 1e3,
		})
	}
}

// columnsBy returns the columns of a figure, one for each number of clients.
func columnsBy(figure string, c report.Column) (columns []report.Column) {
	c.Against = exact
	for _, callers := range crowds {
		c.Name = by(figure, callers)
		columns = append(columns, c)
	}
	return columns
}

func (b *bench) pathTable(title string, columns []report.Column) report.Table {
	t := report.Table{Title: title, Columns: columns}
	for _, w := range ways {
		t.Rows = append(t.Rows, b.Row(w.name, report.Ours, "", columns))
	}
	return t
}

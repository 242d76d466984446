package hot

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/report"
)

// Rows.
const (
	exact    = "exact"
	leased   = "leased"
	cached   = "cached deny"
	oneEach  = "the script alone, one decision a run"
	manyEach = "the script alone, full runs"
)

// A path is a path by which requests are decided on one node.
type path struct {
	name, path string
	passes     bool
}

var (
	ways     = []path{{exact, exactPath, true}, {leased, leasedPath, true}, {cached, deniedPath, false}}
	ceilings = []string{oneEach, manyEach}

	crowds = []int{2, 64, most} // numbers of clients
)

const (
	most = 512 // clients for the comparison with the ceiling, and for costs
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

func (b *bench) atCeilings(ctx context.Context) error {
	for _, name := range ceilings {
		b.progress.Step("%s", name)
		if err := b.atCeiling(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// atCeiling counts decisions by the state they leave in Redis, which only decisions change.
func (b *bench) atCeiling(ctx context.Context, name string) error {
	first, err := b.nodes[0].used(ctx, recorded)
	if err != nil {
		return err
	}
	before, err := b.usage()
	if err != nil {
		return err
	}
	elapsed, err := replay(ctx, b.addr, b.runs[name], b.options.Cell)
	if err != nil {
		return err
	}
	after, err := b.usage()
	if err != nil {
		return err
	}
	last, err := b.nodes[0].used(ctx, recorded)
	if err != nil {
		return err
	}
	decisions := last - first
	if decisions <= 0 {
		return fmt.Errorf("used %d before and %d after: nothing was decided", first, last)
	}
	c := costOf(before, after, decisions)
	c.asked = 1
	b.noteCost(name, c)
	for _, callers := range crowds { // the figure that theirs is compared with
		b.Add(name, by(rate, callers), float64(decisions)/elapsed.Seconds())
	}
	return nil
}

func (b *bench) addPaths(s *report.Section) {
	speed := b.pathTable("Decisions a second on one node, by number of callers", columnsBy(rate, report.Column{Unit: "/s", Better: report.More}), true)
	wait := b.pathTable("What callers wait", append(
		columnsBy(p50, report.Column{Unit: "µs", Better: report.Less}),
		columnsBy(p99, report.Column{Unit: "µs", Better: report.Less})...), false)
	s.Tables = append(s.Tables, speed, wait, b.pathTable(fmt.Sprintf("What a decision costs Redis, %d callers", most), costs, true))

	s.Goals = append(s.Goals,
		report.Goal{
			Name: fmt.Sprintf("hot: exact decisions/s, %d callers, vs %s", most, oneEach), Bound: report.AtLeast, Want: 1, Unit: "×",
			Measured: b.Median(exact, by(rate, most)) / b.Median(oneEach, by(rate, most)),
		},
		report.Goal{ // how close the store gets to the ceiling, whatever else uses the processors
			Name: fmt.Sprintf("hot: Redis CPU per exact decision, %d callers, vs %s", most, manyEach), Bound: report.AtMost, Want: 1.5, Unit: "×",
			Measured: b.Median(exact, redisCPU) / b.Median(manyEach, redisCPU),
		})
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

func (b *bench) pathTable(title string, columns []report.Column, withCeilings bool) report.Table {
	t := report.Table{Title: title, Columns: columns}
	for _, w := range ways {
		t.Rows = append(t.Rows, b.Row(w.name, report.Ours, "", columns))
	}
	if withCeilings {
		for _, name := range ceilings {
			t.Rows = append(t.Rows, b.Row(name, report.Ceiling, "", columns))
		}
	}
	return t
}

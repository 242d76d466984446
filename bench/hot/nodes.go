package hot

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock/bench/report"
)

// Rows.
const (
	withRoom = "leased, room for all"
	reached  = "leased, limit reached"
	flooded  = "denied flood"
)

// Figures: the most and the least allowed in one window, relative to its limit.
const (
	fullest  = "fullest window"
	emptiest = "emptiest window"
)

// A keyLoad is a load on one key on several nodes.
type keyLoad struct {
	name, path string
	limit      int64
	window     time.Duration
	asked      float64 // upper bound of Redis commands per decision
}

func (b *bench) scenes() []keyLoad {
	return []keyLoad{
		{withRoom, leasedPath, roomy, roomyWindow, 0.02},
		{reached, scarcePath, b.options.Scarce, scarceWindow, 0.02},
		{flooded, deniedPath, 0, roomyWindow, 0.001}, // the one allowed request came earlier
	}
}

func (b *bench) onNodes(ctx context.Context, turn int) error {
	for _, sc := range b.scenes() {
		b.progress.Step("%d nodes: %s", members, sc.name)
		// Use a new client every time, so that everything allowed under a limit is counted.
		if err := b.play(ctx, sc, fmt.Sprintf("turn %d", turn)); err != nil {
			return fmt.Errorf("%d nodes, %s: %w", members, sc.name, err)
		}
	}
	return nil
}

func (b *bench) play(ctx context.Context, sc keyLoad, user string) error {
	if sc.name == flooded {
		if err := b.deny(ctx, b.nodes, user); err != nil {
			return err
		}
	}
	l := load{callers: members * runtime.GOMAXPROCS(0), path: sc.path, user: user, duration: b.options.Cell, window: sc.window}
	for _, n := range b.nodes {
		l.nodes = append(l.nodes, n)
	}
	s, c, err := b.run(ctx, l)
	if err != nil {
		return err
	}
	if err := s.check(sc.limit); err != nil {
		return err
	}
	b.Add(sc.name, rate, s.perSecond())
	b.Add(sc.name, p50, s.micros(50))
	b.Add(sc.name, p99, s.micros(99))
	if sc.name == reached {
		b.Add(sc.name, fullest, float64(s.fullest())/float64(sc.limit)*100)
		b.Add(sc.name, emptiest, float64(s.emptiest())/float64(sc.limit)*100)
	}
	b.noteCost(sc.name, c)
	return nil
}

// check fails if more was allowed in a window than its limit.
func (s *loadResult) check(limit int64) error {
	for start, n := range s.windows {
		if n > limit {
			return fmt.Errorf("%d calls passed in the window from %v, and the limit is %d", n, start.Time(), limit)
		}
	}
	return nil
}

func (b *bench) addNodes(s *report.Section) {
	columns := append([]report.Column{
		{Name: rate, Unit: "/s", Better: report.More},
		{Name: p50, Unit: "µs", Better: report.Less},
		{Name: p99, Unit: "µs", Better: report.Less},
		{Name: fullest, Unit: "% of its limit", Better: report.Less},
		{Name: emptiest, Unit: "% of its limit", Better: report.More},
	}, costs...)
	t := report.Table{
		Title:   fmt.Sprintf("One key on %d nodes, as fast as %d callers can; the limit that is reached is %s/s", members, members*runtime.GOMAXPROCS(0), report.Figure(float64(b.options.Scarce))),
		Columns: columns,
	}
	for _, sc := range b.scenes() {
		t.Rows = append(t.Rows, b.Row(sc.name, report.Ours, "", columns))
		s.Goals = append(s.Goals, report.Goal{
			Name: "hot: asked of Redis per decision, " + sc.name, Bound: report.Below, Want: sc.asked, Measured: b.Median(sc.name, asked),
		})
	}
	s.Tables = append(s.Tables, t)
	s.Goals = append(s.Goals,
		report.Goal{
			Name: fmt.Sprintf("hot: decisions/s on one key, %d nodes, leased", members), Bound: report.AtLeast, Want: 400_000, Unit: "/s",
			Measured: b.Median(withRoom, rate),
		},
		report.Goal{
			Name: fmt.Sprintf("hot: most that passed in a window, %d nodes, leased", members), Bound: report.AtMost, Want: 100, Unit: "% of the limit",
			Measured: slices.Max(append([]float64{0}, b.Samples[[2]string{reached, fullest}]...)),
		},
		report.Goal{
			Name: fmt.Sprintf("hot: least that passed in a whole window, %d nodes, leased", members), Bound: report.AtLeast, Want: 97, Unit: "% of the limit",
			Measured: b.Median(reached, emptiest),
		})
}

package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Options configure how much is measured.
type Options struct {
	Keys    int
	LogKeys int           // keys whose logs are filled to be weighed
	Cell    time.Duration // of one repeat of one figure
	Repeat  int
	Stderr  *os.File // for progress
}

// most is the number of clients in the goals.
const most = 512

// A cell is one set of conditions to measure under.
type cell struct {
	name    string
	hot     bool
	callers int
}

func cells() []cell {
	var all []cell
	for _, callers := range []int{1, 64, most} {
		all = append(all, cell{fmt.Sprintf("uniform, %d", callers), false, callers})
	}
	for _, callers := range []int{1, 64, most} {
		all = append(all, cell{fmt.Sprintf("hot, %d", callers), true, callers})
	}
	return all
}

// Figures that are measured in a cell.
const (
	perSecond    = "decisions a second, "
	p50          = "p50, "
	p99          = "p99, "
	serverMicros = "processor time, "
	clientMicros = "client's processor time, "
)

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	server, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	b := bench{options: o, addr: server.Addr, samples: report.Samples{}, gaveUp: map[string]int64{}, keys: Keys(o.Keys)}
	steps := 1
	for _, c := range cells() {
		steps += c.turns() * o.Repeat
	}
	b.progress = report.Begin(o.Stderr, "redis", len(remote.Contestants())*steps+len(counters())+len(logs()))
	defer b.progress.End()
	defer b.hangUp()
	if err := b.open(ctx); err != nil {
		return s, err
	}
	for range o.Repeat {
		for _, c := range cells() {
			for range c.turns() {
				if err := b.visitAll(ctx, c); err != nil {
					return s, err
				}
			}
		}
	}
	s = b.section()
	weights, err := b.weighAll(ctx)
	s.Tables = append(s.Tables, weights...)
	return s, err
}

type runner struct {
	remote.Contestant
	limiter remote.Limiter
}

// bench is all contestants, connected to one server.
type bench struct {
	options  Options
	addr     string
	keys     []string
	runners  []runner
	samples  report.Samples
	gaveUp   map[string]int64
	progress *report.Progress
}

func (b *bench) open(ctx context.Context) error {
	for _, c := range remote.Contestants() {
		b.progress.Step("fill %s", c.Name)
		limiter, err := c.Open(ctx, b.addr, remote.Roomy)
		if err != nil {
			return fmt.Errorf("open %s: %w", c.Name, err)
		}
		b.runners = append(b.runners, runner{c, limiter})
		if err := Warm(ctx, limiter, append(b.keys, hotKey)); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

func (b *bench) hangUp() {
	for _, r := range b.runners {
		r.limiter.Close()
	}
}

const hotKey = "key-hot-hot-hot-"

// turns is the number of parts of a repeat. A single client mostly waits to be woken, and that time varies from
// one moment to the next. So contestants alternate more quickly.
func (c cell) turns() int {
	if c.callers == 1 {
		return 8
	}
	return 1
}

func (b *bench) visitAll(ctx context.Context, c cell) error {
	for _, r := range b.runners {
		b.progress.Step("%s callers: %s", c.name, r.Name)
		if err := b.visit(ctx, r, c); err != nil {
			return fmt.Errorf("%s, %s: %w", r.Name, c.name, err)
		}
	}
	return nil
}

func (b *bench) visit(ctx context.Context, r runner, c cell) error {
	load := Load{Callers: c.callers, Keys: b.keys, Duration: b.options.Cell / time.Duration(c.turns()), MayGiveUp: r.MayGiveUp}
	if c.hot {
		if r.Bounded {
			return nil
		}
		load.Keys = []string{hotKey}
	}
	before, err := ServerCPU(b.addr)
	if err != nil {
		return err
	}
	ownBefore, err := ownCPU()
	if err != nil {
		return err
	}
	served, err := load.Run(ctx, r.limiter)
	if err != nil {
		return err
	}
	ownAfter, err := ownCPU()
	if err != nil {
		return err
	}
	after, err := ServerCPU(b.addr)
	if err != nil {
		return err
	}
	note := func(figure string, v float64) { b.samples.Add(r.Name, figure+c.name, v) }
	note(perSecond, served.PerSecond())
	note(p50, float64(served.Latency.ValueAtPercentile(50))/1e3)
	note(p99, float64(served.Latency.ValueAtPercentile(99))/1e3)
	note(serverMicros, (after-before)*1e6/float64(served.Decisions))
	note(clientMicros, (ownAfter-ownBefore).Seconds()*1e6/float64(served.Decisions))
	b.gaveUp[r.Name] += served.GaveUp
	return nil
}

func (b *bench) section() report.Section {
	s := report.Section{
		Name:  "redis",
		Title: fmt.Sprintf("On Redis, %s keys, callers that ask again at once", report.Figure(float64(b.options.Keys))),
		Notes: []string{"Clients and server share this machine's processors. The reference is " + remote.RedisRate + "; rows in brackets do less than a limiter must."},
	}
	for _, c := range b.runners {
		if n := b.gaveUp[c.Name]; n > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s gave up on %d calls, which count as load and not as decisions.", c.Name, n))
		}
	}
	speed := b.table(perSecond, report.Column{Unit: "/s", Better: report.More}, "Decisions a second, by pattern and number of callers")
	cost := b.table(serverMicros, report.Column{Unit: "µs", Better: report.Less}, "Processor time of Redis per decision, by pattern and number of callers")
	s.Tables = []report.Table{
		speed,
		b.table(p50, report.Column{Unit: "ms", Better: report.Less}, "Median latency, by pattern and number of callers"),
		b.table(p99, report.Column{Unit: "ms", Better: report.Less}, "99th percentile of latency, by pattern and number of callers"),
		cost,
		b.table(clientMicros, report.Column{Unit: "µs", Better: report.Less}, "Processor time of the client per decision, with the benchmark's own, by pattern and number of callers"),
	}
	const lone, uniform, loneHot, hot = 0, 2, 3, 5 // columns, in the order of cells
	s.Goals = []report.Goal{
		{Name: fmt.Sprintf("redis: decisions/s vs %s, %d callers", remote.RedisRate, most), Bound: report.AtLeast, Want: 5, Measured: speed.Ratio(remote.Headline, uniform), Unit: "×"},
		{Name: fmt.Sprintf("redis: Redis CPU per decision vs %s, %d callers", remote.RedisRate, most), Bound: report.AtMost, Want: 1.0 / 3, Measured: 1 / cost.Ratio(remote.Headline, uniform), Unit: "×"},
		{Name: "redis: lone caller's decisions/s vs " + remote.RedisRate, Bound: report.AtLeast, Want: 1, Measured: speed.Ratio(remote.Headline, lone), Unit: "×"},
		{Name: "redis: lone caller's decisions/s on one key vs " + remote.RedisRate, Bound: report.AtLeast, Want: 1, Measured: speed.Ratio(remote.Headline, loneHot), Unit: "×"},
		{Name: fmt.Sprintf("redis: one hot key vs uniform keys, %d callers", most), Bound: report.AtLeast, Want: 0.8, Measured: speed.Value(remote.Headline, hot) / speed.Value(remote.Headline, uniform), Unit: "×"},
	}
	return s
}

func (b *bench) table(figure string, column report.Column, title string) report.Table {
	t := report.Table{Title: title}
	column.Against = remote.RedisRate
	for _, c := range cells() {
		column.Name = c.name
		t.Columns = append(t.Columns, column)
	}
	for _, r := range b.runners {
		t.Rows = append(t.Rows, b.samples.Row(r.Name, r.Role, figure, t.Columns))
	}
	return t
}

// Package scale measures how the cost of a decision grows: with the limits of a request, with keys, with rules and
// with nodes. Each table is a curve; its rows are points.
//
// It is separate because it has no peers, and because its sizes are what it varies.
package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/hot"
	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
	benchrules "github.com/penstock-io/penstock/bench/rules"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// Options are the last point of each curve, and the time of one figure.
type Options struct {
	Limits, Keys, Rules, Nodes int
	Cell                       time.Duration
	Stderr                     *os.File // for progress
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	s = report.Section{Name: "scale", Title: "How the cost of a decision grows"}
	server, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	limits, keys, rules, nodes := steps(1, o.Limits, 2), steps(1000, o.Keys, 10), append(steps(10, o.Rules-1, 10), o.Rules), steps(1, o.Nodes, 2)
	progress := report.Begin(o.Stderr, "scale", len(limits)+len(keys)+len(rules)+len(nodes))
	defer progress.End()
	for _, c := range []struct {
		curve
		points []int
	}{
		{curve{"Limits per request", []string{"memory", "Redis, CPU of Redis"}, "µs", func(n int) ([]float64, error) { return byLimits(ctx, server.Addr, n, o.Cell) }}, limits},
		{curve{"Keys in memory", []string{"1 core", "2 core"}, "ns", nil}, keys},
		{curve{"Rules, of which five match", []string{"match"}, "ns", func(n int) ([]float64, error) { return byRules(n, o.Cell) }}, rules},
		{curve{"Nodes that share one key", hot.NodeFigures, "µs", func(n int) ([]float64, error) { return hot.ByNodes(ctx, server.Addr, n, o.Cell) }}, nodes},
	} {
		if c.measure == nil {
			child, err := openKeys()
			if err != nil {
				return s, err
			}
			defer child.Close()
			c.measure = func(n int) ([]float64, error) { return byKeys(child, n, o.Cell) }
		}
		t, err := c.table(c.points, progress)
		if err != nil {
			return s, fmt.Errorf("%s: %w", c.title, err)
		}
		s.Tables = append(s.Tables, t)
	}
	return s, nil
}

func steps(first, last, factor int) (all []int) {
	for n := first; n <= last; n *= factor {
		all = append(all, n)
	}
	return all
}

// A curve is figures by a number.
type curve struct {
	title   string
	figures []string
	unit    string
	measure func(n int) ([]float64, error)
}

func (c *curve) table(points []int, progress *report.Progress) (report.Table, error) {
	t := report.Table{Title: c.title}
	for _, name := range c.figures {
		t.Columns = append(t.Columns, report.Column{Name: name, Unit: c.unit, Better: report.Less})
	}
	for _, n := range points {
		progress.Step("%s: %d", c.title, n)
		values, err := c.measure(n)
		if err != nil {
			return t, fmt.Errorf("%d: %w", n, err)
		}
		t.Rows = append(t.Rows, report.Row{Name: count(n), Role: report.Ours, Values: values})
	}
	return t, nil
}

// count writes thousands and millions in short.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%d M", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d k", n/1000)
	}
	return fmt.Sprint(n)
}

// callers is how many goroutines decide on Redis at once, and users how many keys each rule has.
const callers, users = 64, 1000

// byLimits decides requests to which that many rules apply, one limit each: by one goroutine in memory, and by many on
// Redis.
func byLimits(ctx context.Context, addr string, n int, cell time.Duration) ([]float64, error) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&text, "  - {name: rule-%d, key: [user], limits: [{rate: 100000000/366d, algorithm: token_bucket}]}\n", i)
	}
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(text.String())}}, rules.Options{Secret: "of the benchmark"})
	if err != nil {
		return nil, err
	}
	memory, err := memstore.New(memstore.Options{})
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	shared, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	alone, err := drive(ctx, memory, snapshot, 1, cell)
	if err != nil {
		return nil, err
	}
	if _, err := drive(ctx, shared, snapshot, callers, cell/4); err != nil { // creates the keys
		return nil, err
	}
	before, err := redis.ServerCPU(addr)
	if err != nil {
		return nil, err
	}
	many, err := drive(ctx, shared, snapshot, callers, cell)
	if err != nil {
		return nil, err
	}
	after, err := redis.ServerCPU(addr)
	return []float64{cell.Seconds() * 1e6 / float64(alone), (after - before) * 1e6 / float64(many)}, err
}

// drive decides requests of random users until the time is up, and returns how many.
func drive(ctx context.Context, store penstock.Store, s *rules.Snapshot, callers int, cell time.Duration) (decisions int64, err error) {
	e, err := engine.New(engine.Options{Store: store, Rules: engine.Fixed(s)})
	if err != nil {
		return 0, err
	}
	names := redis.Keys(users)
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(cell)
	for c := range callers {
		all.Go(func() {
			var v penstock.Verdict
			n, failed := int64(0), error(nil)
			call := &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user"}}}
			for failed == nil && (n == 0 || time.Now().Before(end)) {
				call.Attributes[0].Value = names[(int(n)*callers+c)%users]
				if failed = e.Decide(ctx, call, &v); failed == nil && !v.Allowed {
					failed = errors.New("denied, but the limits have room for all")
				}
				n++
			}
			mu.Lock()
			defer mu.Unlock()
			decisions, err = decisions+n, errors.Join(err, failed)
		})
	}
	all.Wait()
	return decisions, err
}

// openKeys starts a process with our store, with room for the longest curve.
func openKeys() (*inprocess.Child, error) {
	child, err := inprocess.Spawn(inprocess.Headline)
	if err != nil {
		return nil, err
	}
	limit := inprocess.Roomy
	limit.MaxBytes = 8 << 30
	return child, child.Open(limit)
}

// byKeys fills the store up to n keys, and decides on random ones.
func byKeys(child *inprocess.Child, n int, cell time.Duration) ([]float64, error) {
	if err := child.Fill(n/10, n); err != nil { // the tenth is the point before
		return nil, err
	}
	var values []float64
	for procs := 1; procs <= 2; procs++ {
		ran, err := child.Run(inprocess.Run{Pattern: inprocess.Uniform, Procs: procs, Duration: cell})
		if err != nil {
			return nil, err
		}
		values = append(values, ran.PerCall())
	}
	return values, nil
}

func byRules(n int, cell time.Duration) ([]float64, error) {
	ns, err := benchrules.MatchTime(n, cell)
	return []float64{ns}, err
}

// Package watched measures the cost of observability: decisions of a server that decides in memory, and those of
// the engine alone, which are the cheapest, without observers, and with all that a server has: counts, the
// decision log, metrics and a live tail.
//
// It is separate because it has no peers: the reference is the same engine, unobserved.
package watched

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/client"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/httplimit"
	"github.com/penstock-io/penstock/internal/api"
	"github.com/penstock-io/penstock/internal/decisionlog"
	"github.com/penstock-io/penstock/internal/telemetry"
	"github.com/penstock-io/penstock/internal/traffic"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

// Options configure how much is measured.
type Options struct {
	Cell    time.Duration
	Callers int // different keys
	Repeat  int
	Stderr  *os.File // for progress
}

// Rows, each with everything that those before it have.
const (
	unwatched = "nothing looks on"
	counted   = "counted"
	logged    = "and logged (sampled), with metrics"
	followed  = "and followed live"
)

var (
	levels = []string{unwatched, counted, logged, followed}
	cells  = []cell{
		{"server, allowed", "/allowed", true}, {"server, denied", "/denied", true},
		{"engine, allowed", "/allowed", false}, {"engine, denied", "/denied", false},
	}
)

// A cell is a column of the table.
type cell struct {
	name, path string
	server     bool // over HTTP, at /v1/check
}

const document = `
rules:
  - {name: many, match: {path: /allowed}, key: [user], limits: [{rate: 1_000_000_000/1h, algorithm: fixed_window}]}
  - {name: few, match: {path: /denied}, key: [user], limits: [{rate: 1/1h, algorithm: fixed_window}]}
`

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (report.Section, error) {
	s := report.Section{Name: "watched", Title: "What being watched costs", Notes: []string{
		fmt.Sprintf("In memory, %d callers, one rule each. The server is asked by %d clients over loopback, the engine by %d goroutines. The tail is read as fast as it comes.", o.Callers, clients, goroutines),
	}}
	progress := report.Begin(o.Stderr, "watched", o.Repeat*len(levels)*len(cells))
	defer progress.End()
	found := map[string][][]float64{}
	for range o.Repeat {
		for column, cell := range cells {
			for level, name := range levels {
				progress.Step("%s, %s", name, cell.name)
				rate, err := run(ctx, level, cell, o)
				if err != nil {
					return s, fmt.Errorf("%s: %w", name, err)
				}
				if found[name] == nil {
					found[name] = make([][]float64, len(cells))
				}
				found[name][column] = append(found[name][column], rate)
			}
		}
	}
	t := report.Table{Title: "Decisions a second"}
	for _, cell := range cells {
		t.Columns = append(t.Columns, report.Column{Name: cell.name, Unit: "/s", Better: report.More, Against: unwatched})
	}
	for _, name := range levels {
		row := report.Row{Name: name, Role: report.Ours}
		for column := range cells {
			row.Values = append(row.Values, report.Median(found[name][column]))
		}
		t.Rows = append(t.Rows, row)
	}
	s.Tables = append(s.Tables, t)
	for column, cell := range cells {
		if !cell.server {
			continue
		}
		s.Goals = append(s.Goals, report.Goal{
			Name: "watched: " + cell.name + ", with everything, vs nothing", Bound: report.AtLeast, Want: 0.9, Measured: t.Ratio(followed, column), Unit: "×",
		})
	}
	return s, nil
}

// run returns the number of decisions per second.
func run(ctx context.Context, level int, c cell, o Options) (float64, error) {
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "rules.yaml", Data: []byte(document)}}, rules.Options{Secret: "of the benchmark"})
	if err != nil {
		return 0, err
	}
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	seen := traffic.New()
	defer seen.Close()
	options := engine.Options{Store: store, Rules: engine.Fixed(snapshot)}
	if level > 0 {
		options.Observe = seen.Observe
	}
	if level > 1 {
		log, err := decisionlog.New(decisionlog.Options{Log: slog.New(slog.NewJSONHandler(io.Discard, nil))})
		if err != nil {
			return 0, err
		}
		defer log.Close()
		options.Observe = func(o *engine.Observation) {
			log.Observe(o)
			seen.Observe(o)
		}
	}
	e, err := engine.New(options)
	if err != nil {
		return 0, err
	}
	var decider penstock.Decider = e
	if level > 1 {
		metrics, err := telemetry.New(telemetry.Options{Traffic: seen, State: func() (s telemetry.State) { return s }})
		if err != nil {
			return 0, err
		}
		decider = metrics.Decider(e, nil)
	}
	if level > 2 {
		tail, err := seen.Follow(traffic.Filter{})
		if err != nil {
			return 0, err
		}
		defer tail.Close()
		done, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for {
				select {
				case <-tail.Events():
				case <-done.Done():
					return
				}
			}
		}()
	}
	if c.server {
		return ask(ctx, decider, c.path, o)
	}
	return drive(ctx, decider, c.path, o)
}

const (
	goroutines = 2
	clients    = 16
)

// ask sends requests to a server on loopback.
func ask(ctx context.Context, d penstock.Decider, path string, o Options) (float64, error) {
	handler, err := newAPI(d)
	if err != nil {
		return 0, err
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	remote, err := client.NewHTTP(server.URL, client.Options{Timeout: time.Minute, OnError: client.Deny, Connections: clients})
	if err != nil {
		return 0, err
	}
	return driveBy(ctx, remote, path, o, clients)
}

func newAPI(d penstock.Decider) (http.Handler, error) {
	none := func() []attribute.Source { return nil }
	reader, err := httplimit.NewReader(httplimit.ReaderOptions{Sources: none})
	if err != nil {
		return nil, err
	}
	writer, err := httplimit.NewWriter(httplimit.WriterOptions{})
	if err != nil {
		return nil, err
	}
	concluder, _ := d.(penstock.Concluder)
	return api.New(api.Options{Decider: d, Concluder: concluder, Reader: reader, Writer: writer})
}

func drive(ctx context.Context, d penstock.Decider, path string, o Options) (float64, error) {
	return driveBy(ctx, d, path, o, goroutines)
}

func driveBy(ctx context.Context, d penstock.Decider, path string, o Options, goroutines int) (float64, error) {
	users := make([]string, o.Callers)
	for i := range users {
		users[i] = "user " + strconv.Itoa(i)
	}
	var failure atomic.Pointer[error]
	var all sync.WaitGroup
	var total atomic.Int64
	// The first request of every client is not measured, so that clients to be denied have used up their limit.
	work := func(from int, until func(n int) bool) {
		c := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: path}, {Name: "user"}}}
		var v penstock.Verdict
		n := 0
		for ; !until(n); n++ {
			c.Attributes[1].Value = users[(from+n*goroutines)%len(users)]
			if err := d.Decide(ctx, &c, &v); err != nil {
				failure.Store(&err)
				return
			}
		}
		total.Add(int64(n))
	}
	for g := range goroutines {
		all.Go(func() { work(g, func(n int) bool { return n*goroutines >= len(users) }) })
	}
	all.Wait()
	total.Store(0)
	began := time.Now()
	for g := range goroutines {
		all.Go(func() {
			work(g, func(n int) bool { return n%64 == 0 && time.Since(began) > o.Cell })
		})
	}
	all.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return float64(total.Load()) / time.Since(began).Seconds(), nil
}

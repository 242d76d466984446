package latency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Options configure how much is measured.
type Options struct {
	Keys   int
	Cell   time.Duration // of one repeat of one figure
	Calls  int           // per client, repeat and network
	Repeat int
	KeptUp time.Duration // maximum latency at a sustainable rate; default 50 ms
	Stderr *os.File      // for progress
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	server, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	progress := report.Begin(o.Stderr, "latency", o.Repeat*(1+len(networks())*len(travellers())))
	defer progress.End()
	s = report.Section{Name: "latency", Title: "Latency on Redis"}
	if err := scheduled(ctx, server.Addr, o, progress, &s); err != nil {
		return s, fmt.Errorf("open loop: %w", err)
	}
	if err := overNetworks(ctx, server.Addr, o, progress, &s); err != nil {
		return s, fmt.Errorf("over a slower network: %w", err)
	}
	return s, nil
}

// scheduled measures at half of the highest sustainable rate of scheduled requests.
func scheduled(ctx context.Context, addr string, o Options, progress *report.Progress, s *report.Section) error {
	c, err := remote.Find(remote.Headline)
	if err != nil {
		return err
	}
	limiter, err := c.Open(ctx, addr, remote.Roomy)
	if err != nil {
		return err
	}
	defer limiter.Close()
	keys := redis.Keys(o.Keys)
	if err := redis.Warm(ctx, limiter, keys); err != nil {
		return err
	}
	const callers = 512
	names := []string{"asked without pause", "saturation", "rate", "p50", "p99", "p99.9", "late p99", "script p50", "script p99"}
	units := []string{"/s", "/s", "/s", "ms", "ms", "ms", "ms", "ms", "ms"}
	samples := make([][]float64, len(names))
	for range o.Repeat {
		progress.Step("open loop")
		served, err := redis.Load{Callers: callers, Keys: keys, Duration: o.Cell}.Run(ctx, limiter)
		if err != nil {
			return fmt.Errorf("find the saturation rate: %w", err)
		}
		most, err := saturation(ctx, limiter, keys, served.PerSecond(), o.Cell/2, cmp.Or(o.KeptUp, 50*time.Millisecond))
		if err != nil {
			return fmt.Errorf("find the saturation rate: %w", err)
		}
		rate := most / 2
		if _, err := redistest.Command(addr, "CONFIG", "RESETSTAT"); err != nil {
			return err
		}
		w, err := OpenLoop{PerSecond: rate, Duration: o.Cell, Keys: keys}.Run(ctx, limiter)
		if err != nil {
			return err
		}
		script50, script99, err := scriptTimes(addr)
		if err != nil {
			return err
		}
		for i, v := range []float64{
			served.PerSecond(), most, rate,
			float64(w.Latency.ValueAtPercentile(50)) / 1e3,
			float64(w.Latency.ValueAtPercentile(99)) / 1e3,
			float64(w.Latency.ValueAtPercentile(99.9)) / 1e3,
			float64(w.Late.ValueAtPercentile(99)) / 1e3,
			script50 / 1e3, script99 / 1e3,
		} {
			samples[i] = append(samples[i], v)
		}
	}
	t := report.Table{Title: "Calls at fixed instants, at half of the saturation rate; latency from the scheduled instant"}
	row := report.Row{Name: remote.Headline, Role: report.Ours}
	for i := range names {
		t.Columns = append(t.Columns, report.Column{Name: names[i], Unit: units[i], Better: report.Less})
		row.Values = append(row.Values, report.Median(samples[i]))
	}
	t.Rows = []report.Row{row}
	s.Tables = append(s.Tables, t)
	s.Notes = append(s.Notes, `"late" is how long after its instant the load generator, which shares the processors, began a call; it is part of the latency. It has a thread beyond those of the callers. A script run decides all the calls that were waiting together.`)
	s.Goals = append(s.Goals,
		report.Goal{Name: "latency: decision p99 at half of saturation", Bound: report.AtMost, Want: 2, Measured: row.Values[4], Unit: " ms"},
		report.Goal{Name: "latency: script p99 at half of saturation", Bound: report.Below, Want: 5, Measured: row.Values[8], Unit: " ms"},
	)
	return nil
}

// scriptTimes returns percentiles of the duration of script runs in the server, in µs, since its statistics were
// reset.
func scriptTimes(addr string) (p50, p99 float64, err error) {
	text, err := redis.Info(addr, "latencystats", "latency_percentiles_usec_evalsha")
	if err != nil {
		return 0, 0, err
	}
	found := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if found[name], err = strconv.ParseFloat(value, 64); err != nil {
			return 0, 0, fmt.Errorf("latency percentiles %q of %s: %w", text, addr, err)
		}
	}
	if found["p50"] <= 0 || found["p99"] <= 0 {
		return 0, 0, fmt.Errorf("latency percentiles %q of %s: no p50 and p99", text, addr)
	}
	return found["p50"], found["p99"], nil
}

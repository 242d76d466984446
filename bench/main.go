// Command bench measures Penstock beside other limiters, in one run on one machine. See --help.
//
// It is a separate module so that the peers never become dependencies of the product.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/penstock-io/penstock/bench/doors"
	"github.com/penstock-io/penstock/bench/envoy"
	"github.com/penstock-io/penstock/bench/guards"
	"github.com/penstock-io/penstock/bench/hot"
	"github.com/penstock-io/penstock/bench/inprocess"
	"github.com/penstock-io/penstock/bench/keys"
	"github.com/penstock-io/penstock/bench/latency"
	"github.com/penstock-io/penstock/bench/memory"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/bench/rules"
	"github.com/penstock-io/penstock/bench/scale"
)

func main() {
	inprocess.ServeIfChild()
	doors.ServeIfChild()
	envoy.ServeIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// resultsDir holds the saved results, in the repository.
const resultsDir = "bench/results"

// run runs the selected benchmarks and prints the results. It also prints and saves the results before an error,
// because a benchmark is long.
func run(ctx context.Context, o options, stdout io.Writer, stderr *os.File) error {
	if o.readme {
		return writeDocuments("..")
	}
	r := report.Report{
		Date: time.Now().UTC().Format(time.DateOnly), Commit: report.Commit(), Machine: report.ThisMachine(),
		Quick: o.quick, Repeat: o.repeat,
	}
	var failed error
	for _, name := range o.only {
		section, err := measure(ctx, name, o, stderr)
		if err != nil {
			failed = fmt.Errorf("%s: %w", name, err)
			break
		}
		r.Sections = append(r.Sections, section)
		if o.save {
			failed = errors.Join(failed, r.Save(filepath.Join("..", resultsDir)))
		}
	}
	if o.save {
		failed = errors.Join(failed, writeDocuments(".."))
	}
	write := r.Text
	if o.output == "json" {
		write = r.JSON
	}
	return errors.Join(failed, write(stdout))
}

func measure(ctx context.Context, name string, o options, stderr *os.File) (report.Section, error) {
	s := o.sizes
	switch name {
	case "memory":
		return memory.Measure(memory.Options{Keys: s.memoryKeys, Cell: s.memoryCell, Repeat: o.repeat, Stderr: stderr})
	case "keys":
		return keys.Measure(keys.Options{Keys: s.weighedKeys, MaxBytes: 8 << 30, Stderr: stderr})
	case "huge":
		return keys.MeasureHuge(keys.Options{Keys: o.keys, Cell: s.doorsCell, Stderr: stderr})
	case "scale":
		return scale.Measure(ctx, scale.Options{Limits: 64, Keys: s.scaledKeys, Rules: s.scaledRules, Nodes: 64, Cell: s.scaleCell, Stderr: stderr})
	case "guards":
		return guards.Measure(ctx, guards.Options{Keys: s.guardedKeys, Cell: s.redisCell, Repeat: o.repeat, Stderr: stderr})
	case "redis":
		return redis.Measure(ctx, redis.Options{Keys: s.redisKeys, LogKeys: s.logKeys, Cell: s.redisCell, Repeat: o.repeat, Stderr: stderr})
	case "latency":
		return latency.Measure(ctx, latency.Options{Keys: s.redisKeys, Cell: s.latencyCell, Calls: s.travels, Repeat: o.repeat, Stderr: stderr})
	case "hot":
		return hot.Measure(ctx, hot.Options{Cell: s.hotCell, Scarce: s.scarce, Repeat: o.repeat, Stderr: stderr})
	case "rules":
		return rules.Measure(rules.Options{Rules: s.rules, Cell: s.rulesCell, Repeat: o.repeat, Stderr: stderr})
	case "doors":
		return doors.Measure(ctx, doors.Options{Cell: s.doorsCell, Repeat: o.repeat, Stderr: stderr})
	case "envoy":
		return envoy.Measure(ctx, envoy.Options{Keys: s.envoyKeys, Cell: s.envoyCell, Repeat: o.repeat, Stderr: stderr})
	}
	return report.Section{}, fmt.Errorf("no benchmark is called %q", name)
}

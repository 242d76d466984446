package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const help = `bench measures Penstock beside other limiters, in one run on one machine.

  memory   nanoseconds per decision in process memory: one hot key, a million keys
           uniform and zipf, and all denied, on one and two cores
  keys     bytes per key, and the time of a full garbage collection, at ten million keys
  huge     500 million keys in one process, or -keys: insert rate, bytes per key, decisions,
           garbage collection; needs 20 GiB, and runs only if it is asked for
  scale    the cost of a decision by limits of a request, keys, rules and nodes, as curves
  redis    decisions a second, latency and server CPU with 1, 64 and 512 callers, and
           Redis memory per key
  latency  calls on a fixed schedule at half of the saturation rate, and one script
           against four round trips over a slower network
  hot      exact decisions, cached denials and permits taken ahead beside each other;
           one hot key on three nodes, and what it asks of Redis
  guards   what a call with a penalty, an id or a reservation makes a store remember, in
           bytes, and what it costs a decision
  rules    finding the rules of a call among 10, 1,000 and 100,000; bytes per rule, and
           the time to compile them
  doors    what a request pays for being limited: the gateway beside other proxies, the
           decision API, and each place where an application can be limited; needs wrk,
           nginx, haproxy and caddy
  envoy    the rate limit service for Envoy beside envoyproxy/ratelimit: decisions a second,
           processor time and latency, of calls that all pass and that are all denied

Contestants take turns (A B C A B C ...) and the medians of the repeats are shown, because
a machine is faster at one moment than at the next. For the same reason only the ratios in
brackets say anything: above 1 is better than the reference row. The last table holds the
goals. redis-server is started here and ended; nothing else is contacted.

Examples:
  bench                            everything; takes many minutes, on an otherwise idle machine
  bench -quick                     small sizes, about a minute: does it all work?
  bench -only memory -repeat 9     one benchmark, with more repeats
  bench -only redis,latency -o json > redis.json
  bench -only memory -save         one benchmark, saved, and the tables of the README written again

Flags:
`

type options struct {
	only   []string
	quick  bool
	output string
	repeat int
	keys   int  // of huge
	save   bool // into resultsDir, and write the documents
	readme bool // only write the documents
	sizes  workSizes
}

// workSizes configure how much each benchmark measures.
type workSizes struct {
	memoryKeys  int
	memoryCell  time.Duration
	weighedKeys int
	redisKeys   int
	redisCell   time.Duration
	logKeys     int
	latencyCell time.Duration
	travels     int
	hotCell     time.Duration
	scarce      int64
	guardedKeys int

	scaledKeys, scaledRules int
	scaleCell               time.Duration

	rules     int
	rulesCell time.Duration

	doorsCell time.Duration

	envoyKeys int
	envoyCell time.Duration
}

var (
	full = workSizes{
		memoryKeys: 1_000_000, memoryCell: 500 * time.Millisecond,
		weighedKeys: 10_000_000,
		redisKeys:   100_000, redisCell: time.Second, logKeys: 200,
		latencyCell: 5 * time.Second, travels: 200,
		hotCell: 2 * time.Second, scarce: 200_000,
		guardedKeys: 100_000,
		scaledKeys:  100_000_000, scaledRules: 200_000, scaleCell: 2 * time.Second,
		rules: 100_000, rulesCell: 500 * time.Millisecond,
		doorsCell: 5 * time.Second,
		envoyKeys: 100_000, envoyCell: 5 * time.Second,
	}
	small = workSizes{
		memoryKeys: 100_000, memoryCell: 20 * time.Millisecond,
		weighedKeys: 1_000_000,
		redisKeys:   5_000, redisCell: 50 * time.Millisecond, logKeys: 50,
		latencyCell: 300 * time.Millisecond, travels: 25,
		hotCell: 50 * time.Millisecond, scarce: 5_000,
		guardedKeys: 20_000,
		scaledKeys:  1_000_000, scaledRules: 10_000, scaleCell: 50 * time.Millisecond,
		rules: 100_000, rulesCell: 20 * time.Millisecond,
		doorsCell: time.Second,
		envoyKeys: 2_000, envoyCell: 300 * time.Millisecond,
	}
)

const (
	fullRepeat  = 5
	smallRepeat = 3
)

func benchmarks() []string {
	return []string{"memory", "keys", "huge", "scale", "redis", "latency", "hot", "guards", "rules", "doors", "envoy"}
}

// ordinary are the benchmarks that any machine can run.
func ordinary() []string {
	return slices.DeleteFunc(benchmarks(), func(name string) bool { return name == "huge" })
}

func parse(args []string, usage io.Writer) (options, error) {
	o := options{sizes: full}
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.Usage = func() {
		fmt.Fprint(usage, help)
		flags.PrintDefaults()
	}
	flags.StringVar(&only, "only", strings.Join(ordinary(), ","), "`benchmarks` to run, comma-separated")
	flags.IntVar(&o.keys, "keys", 500_000_000, "`keys` of the benchmark huge")
	flags.BoolVar(&o.quick, "quick", false, "small sizes and short cells")
	flags.StringVar(&o.output, "o", "text", "output `format`: text or json")
	flags.IntVar(&o.repeat, "repeat", 0, fmt.Sprintf("interleaved repeats per figure (default %d, quick %d)", fullRepeat, smallRepeat))
	flags.BoolVar(&o.save, "save", false, "save each section in "+resultsDir+" and write the tables of the README and the docs from all saved results")
	flags.BoolVar(&o.readme, "readme", false, "measure nothing; write the tables of the README and the docs from the saved results")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q; see --help", flags.Arg(0))
	}
	if o.output != "text" && o.output != "json" {
		return o, fmt.Errorf("-o %q: want text or json", o.output)
	}
	for name := range strings.SplitSeq(only, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(benchmarks(), name) {
			return o, fmt.Errorf("-only %q: %q is not one of %s", only, name, strings.Join(benchmarks(), ", "))
		}
		o.only = append(o.only, name)
	}
	if o.save && o.quick {
		return o, errors.New("-save with -quick: a quick run shows that everything works, not how fast it is")
	}
	if o.keys < 1000 {
		return o, fmt.Errorf("-keys %d: want at least 1000", o.keys)
	}
	if o.repeat < 0 {
		return o, fmt.Errorf("-repeat %d: want at least 1", o.repeat)
	}
	if o.quick {
		o.sizes = small
	}
	if o.repeat == 0 {
		o.repeat = fullRepeat
		if o.quick {
			o.repeat = smallRepeat
		}
	}
	return o, nil
}

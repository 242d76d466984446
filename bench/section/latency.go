package section

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
)

// Latency measures how long a request waits for a decision on Redis when requests arrive on a schedule, and the effect
// of a slower network on one round trip and on four.
func Latency(b *lab.Bench) report.Section {
	s := report.Section{Name: "latency", Title: "Latency on Redis", Notes: []string{
		`"late" is how long after its instant the load generator, which shares the processors, began a call; it is part of the latency. It has a thread beyond those of the callers. "client CPU" is that of the client with its load generator, for each decision. A script run decides all the calls that were waiting together.`,
	}}
	server := b.Redis()
	scheduled(b, server, &s)
	overNetworks(b, server, &s)
	return s
}

// scheduled measures at half of the highest sustainable rate of scheduled requests.
func scheduled(b *lab.Bench, server lab.Redis, s *report.Section) {
	c := limiter.Find(limiter.OnRedis, limiter.Headline)
	l := c.Open(b, server.Addr, limiter.Slow)
	keys, cell := lab.Keys(b.Size(redisKeys)), b.Cell(5*time.Second)
	lab.Check(lab.Warm(b, l, keys))
	keptUp := 50 * time.Millisecond * time.Duration(max(1, b.Divisor)) // a quick run on a busy machine has stalls that are as long as its cells
	t := report.NewTable("Calls at fixed instants, at half of the saturation rate; latency from the scheduled instant",
		report.More.In("/s", "asked without pause", "saturation", "rate"),
		report.Less.In("ms", "p50", "p99", "p99.9", "late p99", "script p50", "script p99"), report.Less.In("µs", "client CPU"))
	const p99, scriptP99 = 4, 8
	for range b.Repeat {
		b.Step("open loop")
		served := lab.Must(lab.Load{ClosedLoop: lab.ClosedLoop{Callers: most, Duration: cell}, Keys: keys}.Run(b, l))
		saturation := lab.Must(lab.Saturation(b, l, keys, served.PerSecond(), cell/2, keptUp))
		server.Command("CONFIG", "RESETSTAT")
		before := lab.OwnCPU()
		w := lab.Must(lab.OpenLoop{PerSecond: saturation / 2, Duration: cell, Keys: keys}.Run(b, l))
		cpu := lab.OwnCPU() - before
		script := scriptTimes(server)
		t.Add(c.Name, c.Role, 0, served.PerSecond(), saturation, saturation/2,
			w.Millis(50), w.Millis(99), w.Millis(99.9), float64(w.Late.ValueAtPercentile(99))/1e6,
			script["p50"], script["p99"], cpu.Seconds()*1e6/float64(w.Decisions))
	}
	s.Tables = append(s.Tables, t)
	s.AtMost("latency: decision p99 at half of saturation", 2, t.Value(c.Name, p99), " ms")
	s.Below("latency: script p99 at half of saturation", 5, t.Value(c.Name, scriptP99), " ms")
}

// scriptTimes returns percentiles of the duration of script runs in the server, in ms, since its statistics were
// reset.
func scriptTimes(server lab.Redis) map[string]float64 {
	text := server.Info("latencystats", "latency_percentiles_usec_evalsha")
	found := map[string]float64{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		found[name] = lab.Must(strconv.ParseFloat(value, 64)) / 1e3
	}
	if found["p50"] <= 0 || found["p99"] <= 0 {
		lab.Check(fmt.Errorf("latency percentiles %q: no p50 and p99", text))
	}
	return found
}

// overNetworks measures the exact log in one script and in four round trips, and our cheapest limit, with a longer
// round trip. Few callers send at once, so that they wait for the network.
func overNetworks(b *lab.Bench, server lab.Redis, s *report.Section) {
	names := []string{"+1ms", "+2ms"}
	t := report.NewTable("Median latency with the network's round trip made longer", report.Less.In("ms", names...)).Against(limiter.FourTrips)
	for range b.Repeat {
		for column, added := range names {
			for _, name := range []string{limiter.Headline, limiter.OurLog, limiter.FourTrips} {
				b.Step("%s: %s", added, name)
				b.Scope(func() {
					c := limiter.Find(limiter.OnRedis, name)
					l := c.Open(b, b.Delay(server.Addr, lab.Must(time.ParseDuration(added))), limiter.Slow)
					lab.Check(lab.Warm(b, l, []string{"first"})) // connects, and loads the script into the server
					load := lab.Load{ClosedLoop: lab.ClosedLoop{Callers: 4, Requests: b.Size(200)}, Keys: lab.Keys(b.Size(redisKeys)), MayDeny: true}
					t.Add(name, c.Role, column, lab.Must(load.Run(b, l)).Millis(50))
				})
			}
		}
	}
	s.Tables = append(s.Tables, t)
	for i, name := range names {
		s.AtLeast(fmt.Sprintf("latency: one script's p50 below four round trips', both exact logs, %s", name),
			70, 100*(1-t.Value(limiter.OurLog, i)/t.Value(limiter.FourTrips, i)), " %")
	}
}

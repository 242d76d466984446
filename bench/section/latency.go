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
	s := report.Section{Name: "latency", Title: "Latency on Redis"}
	server := b.Redis()
	scheduled(b, server, &s)
	overNetworks(b, server, &s)
	return s
}

var scheduledColumns = []report.Column{
	{Name: "asked without pause", Unit: "/s"}, {Name: "saturation", Unit: "/s"}, {Name: "rate", Unit: "/s"},
	{Name: "p50", Unit: "ms"}, {Name: "p99", Unit: "ms"}, {Name: "p99.9", Unit: "ms"}, {Name: "late p99", Unit: "ms"},
	{Name: "script p50", Unit: "ms"}, {Name: "script p99", Unit: "ms"}, {Name: "client CPU", Unit: "µs"},
}

// scheduled measures at half of the highest sustainable rate of scheduled requests.
func scheduled(b *lab.Bench, server lab.Redis, s *report.Section) {
	l := limiter.Find(limiter.OnRedis, limiter.Headline).Open(b, server.Addr, limiter.Slow)
	keys, cell := lab.Keys(b.Size(redisKeys)), b.Cell(5*time.Second)
	lab.Check(lab.Warm(b, l, keys))
	keptUp := 50 * time.Millisecond * time.Duration(max(1, b.Divisor)) // a quick run on a busy machine has stalls that are as long as its cells
	samples := report.Samples{}
	for range b.Repeat {
		b.Step("open loop")
		served := lab.Must(lab.Load{ClosedLoop: lab.ClosedLoop{Callers: most, Duration: cell}, Keys: keys}.Run(b, l))
		saturation := lab.Must(lab.Saturation(b, l, keys, served.PerSecond(), cell/2, keptUp))
		server.Command("CONFIG", "RESETSTAT")
		before := lab.OwnCPU()
		w := lab.Must(lab.OpenLoop{PerSecond: saturation / 2, Duration: cell, Keys: keys}.Run(b, l))
		cpu := lab.OwnCPU() - before
		script := scriptTimes(server)
		for i, v := range []float64{
			served.PerSecond(), saturation, saturation / 2,
			lab.Millis(w.Latency, 50), lab.Millis(w.Latency, 99), lab.Millis(w.Latency, 99.9), lab.Millis(w.Late, 99),
			script["p50"], script["p99"], cpu.Seconds() * 1e6 / float64(w.Requests),
		} {
			samples.Add(limiter.Headline, scheduledColumns[i].Name, v)
		}
	}
	columns := append([]report.Column(nil), scheduledColumns...)
	for i := range columns {
		columns[i].Better = report.Less
	}
	s.Tables = append(s.Tables, samples.Table("Calls at fixed instants, at half of the saturation rate; latency from the scheduled instant", "", columns, []report.Row{report.NewRow(limiter.Headline, report.Ours)}))
	s.Notes = append(s.Notes, `"late" is how long after its instant the load generator, which shares the processors, began a call; it is part of the latency. It has a thread beyond those of the callers. "client CPU" is that of the client with its load generator, for each decision. A script run decides all the calls that were waiting together.`)
	s.Goals = append(s.Goals,
		report.AtMost("latency: decision p99 at half of saturation", 2, samples.Median(limiter.Headline, "p99"), " ms"),
		report.Below("latency: script p99 at half of saturation", 5, samples.Median(limiter.Headline, "script p99"), " ms"))
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

// networks are the round trips added to that of the loopback.
var networks = []time.Duration{time.Millisecond, 2 * time.Millisecond}

// overNetworks measures the exact log in one script and in four round trips, and our cheapest limit. Few callers send
// at once, so that they wait for the network.
func overNetworks(b *lab.Bench, server lab.Redis, s *report.Section) {
	samples := report.Samples{}
	var travellers []limiter.Contestant
	for _, name := range []string{limiter.Headline, limiter.OurLog, limiter.FourTrips} {
		travellers = append(travellers, limiter.Find(limiter.OnRedis, name))
	}
	for range b.Repeat {
		for _, roundTrip := range networks {
			for _, c := range travellers {
				b.Step("+%v: %s", roundTrip, c.Name)
				b.Scope(func() { samples.Add(c.Name, fmt.Sprintf("+%v", roundTrip), travel(b, server.Addr, roundTrip, c)) })
			}
		}
	}
	var names []string
	for _, roundTrip := range networks {
		names = append(names, fmt.Sprintf("+%v", roundTrip))
	}
	t := samples.Table("Median latency with the network's round trip made longer", "",
		report.Columns(report.Column{Unit: "ms", Better: report.Less, Against: limiter.FourTrips}, names...), limiter.Rows(travellers))
	s.Tables = append(s.Tables, t)
	for i, name := range names {
		s.Goals = append(s.Goals, report.AtLeast(fmt.Sprintf("latency: one script's p50 below four round trips', both exact logs, %s", name),
			70, 100*(1-t.Value(limiter.OurLog, i)/t.Value(limiter.FourTrips, i)), " %"))
	}
}

// travel returns the median latency, in ms, over its own network.
func travel(b *lab.Bench, addr string, roundTrip time.Duration, c limiter.Contestant) float64 {
	l := c.Open(b, b.Delay(addr, roundTrip), limiter.Slow)
	lab.Check(lab.Warm(b, l, []string{"first"})) // connects, and loads the script into the server
	load := lab.Load{ClosedLoop: lab.ClosedLoop{Callers: 4, Requests: b.Size(200)}, Keys: lab.Keys(b.Size(redisKeys)), MayDeny: true}
	return lab.Must(load.Run(b, l)).Millis(50)
}

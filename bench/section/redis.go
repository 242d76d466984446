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

const (
	most      = 512 // callers in the goals
	redisKeys = 100_000
	hotKey    = "key-hot-hot-hot-"
)

// redisCells are the conditions to measure under, a column of each table. A single caller mostly waits to be woken, and
// that time varies from one moment to the next. So contestants take several shorter turns in a repeat.
var redisCells = []struct {
	name           string
	hot            bool
	callers, turns int
}{
	{"uniform, 1", false, 1, 8}, {"uniform, 64", false, 64, 1}, {"uniform, 512", false, most, 1},
	{"hot, 1", true, 1, 8}, {"hot, 64", true, 64, 1}, {"hot, 512", true, most, 1},
}

// Columns of the tables.
const lone, uniform, loneHot, hot = 0, 2, 3, 5

// Redis measures limiters that keep their state in Redis at full speed: decisions per second, latency, processor time
// per decision, and the server's memory per key.
func Redis(b *lab.Bench) report.Section {
	server, keys := b.Redis(), lab.Keys(b.Size(redisKeys))
	s := report.Section{
		Name:  "redis",
		Title: fmt.Sprintf("On Redis, %s keys, callers that ask again at once", report.Figure(float64(len(keys)))),
		Notes: []string{"Clients and server share this machine's processors. The reference is " + limiter.RedisRate + "; rows in brackets do less than a limiter must."},
	}
	var names []string
	for _, c := range redisCells {
		names = append(names, c.name)
	}
	table := func(title, unit string, better report.Direction) *report.Table {
		t := report.NewTable(title+", by pattern and number of callers", better.In(unit, names...)).Against(limiter.RedisRate)
		s.Tables = append(s.Tables, t)
		return t
	}
	speed := table("Decisions a second", "/s", report.More)
	p50, p99 := table("Median latency", "ms", report.Less), table("99th percentile of latency", "ms", report.Less)
	cost := table("Processor time of Redis per decision", "µs", report.Less)
	own := table("Processor time of the client per decision, with the benchmark's own", "µs", report.Less)
	var limiters []lab.Limiter
	for _, c := range limiter.OnRedis {
		b.Step("fill %s", c.Name)
		l := c.Open(b, server.Addr, limiter.Slow)
		lab.Check(lab.Warm(b, l, append(keys, hotKey)))
		limiters = append(limiters, l)
	}
	gaveUp := map[string]int64{}
	measure := func(c limiter.Contestant, l lab.Limiter, column int) {
		cell := redisCells[column]
		load := lab.Load{ClosedLoop: lab.ClosedLoop{Callers: cell.callers, Duration: b.Cell(time.Second) / time.Duration(cell.turns)}, Keys: keys, MayGiveUp: c.MayGiveUp}
		if cell.hot {
			load.Keys = []string{hotKey}
		}
		serverBefore, ownBefore := server.CPU(), lab.OwnCPU()
		served := lab.Must(load.Run(b, l))
		ownUsed, serverUsed := lab.OwnCPU()-ownBefore, server.CPU()-serverBefore
		speed.Add(c.Name, c.Role, column, served.PerSecond())
		p50.Add(c.Name, c.Role, column, served.Millis(50))
		p99.Add(c.Name, c.Role, column, served.Millis(99))
		cost.Add(c.Name, c.Role, column, serverUsed*1e6/float64(served.Decisions))
		own.Add(c.Name, c.Role, column, ownUsed.Seconds()*1e6/float64(served.Decisions))
		gaveUp[c.Name] += served.GaveUp
	}
	for range b.Repeat {
		for column, cell := range redisCells {
			for range cell.turns {
				for i, c := range limiter.OnRedis {
					b.Step("%s callers: %s", cell.name, c.Name)
					if !cell.hot || !c.Bounded {
						measure(c, limiters[i], column)
					}
				}
			}
		}
	}
	for _, c := range limiter.OnRedis {
		if n := gaveUp[c.Name]; n > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s gave up on %d calls, which count as load and not as decisions.", c.Name, n))
		}
	}
	s.AtLeast(fmt.Sprintf("redis: decisions/s vs %s, %d callers", limiter.RedisRate, most), 5, speed.Ratio(limiter.Headline, uniform), "×")
	s.AtMost(fmt.Sprintf("redis: Redis CPU per decision vs %s, %d callers", limiter.RedisRate, most), 1.0/3, 1/cost.Ratio(limiter.Headline, uniform), "×")
	s.AtLeast("redis: lone caller's decisions/s vs "+limiter.RedisRate, 1, speed.Ratio(limiter.Headline, lone), "×")
	s.AtLeast("redis: lone caller's decisions/s on one key vs "+limiter.RedisRate, 1, speed.Ratio(limiter.Headline, loneHot), "×")
	s.AtLeast(fmt.Sprintf("redis: one hot key vs uniform keys, %d callers", most), 0.8, speed.Value(limiter.Headline, hot)/speed.Value(limiter.Headline, uniform), "×")
	s.Tables = append(s.Tables, weighRedis(b, keys)...)
	return s
}

// logEntries is how many requests every log is filled with.
const logEntries = 100

// weighRedis fills an empty server with each contestant's keys in turn: of those whose keys take the same space however
// much they are used, and of those that remember every request.
func weighRedis(b *lab.Bench, keys []string) []*report.Table {
	server := b.Redis()
	bytes := func(title, against string) *report.Table {
		return report.NewTable(title, report.Less.In("B/key", "used_memory", "MEMORY USAGE")).Against(against)
	}
	counters := bytes("Redis memory per key", limiter.RedisRate)
	logs := bytes(fmt.Sprintf("Redis memory per log of %d calls", logEntries), limiter.FourTrips)
	for _, c := range limiter.OnRedis {
		switch {
		case c.Name == limiter.OurLog || c.Name == limiter.FourTrips:
			weigh(b, server, logs, c, keys[:b.Size(200)], logEntries)
		case c.Role != report.Ceiling:
			weigh(b, server, counters, c, keys, 1)
		}
		if c.Name == limiter.OurTwo {
			weigh(b, server, counters, limiter.ThreeLimits, keys, 1)
		}
	}
	return []*report.Table{counters, logs}
}

func weigh(b *lab.Bench, server lab.Redis, t *report.Table, c limiter.Contestant, keys []string, requests int) {
	b.Step("weigh %s", c.Name)
	used := server.BytesPerKey(b, len(keys), func(n int) {
		l := c.Open(b, server.Addr, limiter.Slow)
		for range requests {
			lab.Check(lab.Warm(b, l, keys[:n]))
		}
	})
	if size := server.Number("DBSIZE"); size != float64(len(keys)) {
		lab.Check(fmt.Errorf("the server holds %v keys, want %d: some have expired, or were never written", size, len(keys)))
	}
	const samples = 200
	sum := 0.0
	for range samples {
		sum += server.Number("MEMORY", "USAGE", server.Command("RANDOMKEY"), "SAMPLES", "0")
	}
	t.Add(c.Name, c.Role, 0, used, sum/samples)
}

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

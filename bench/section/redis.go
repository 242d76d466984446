package section

import (
	"fmt"
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

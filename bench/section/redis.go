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
)

// A redisCell is one set of conditions to measure under, a column of each table.
type redisCell struct {
	name    string
	hot     bool
	callers int
}

func redisCells() (all []redisCell) {
	for _, hot := range []bool{false, true} {
		for _, callers := range []int{1, 64, most} {
			all = append(all, redisCell{fmt.Sprintf("%s, %d", map[bool]string{false: "uniform", true: "hot"}[hot], callers), hot, callers})
		}
	}
	return all
}

// turns is the number of parts of a repeat. A single caller mostly waits to be woken, and that time varies from
// one moment to the next. So contestants alternate more quickly.
func (c redisCell) turns() int {
	if c.callers == 1 {
		return 8
	}
	return 1
}

// redisFigures are measured in each cell, and make a table each.
var redisFigures = []struct {
	title  string
	column report.Column
}{
	{"Decisions a second", report.Column{Unit: "/s", Better: report.More}},
	{"Median latency", report.Column{Unit: "ms", Better: report.Less}},
	{"99th percentile of latency", report.Column{Unit: "ms", Better: report.Less}},
	{"Processor time of Redis per decision", report.Column{Unit: "µs", Better: report.Less}},
	{"Processor time of the client per decision, with the benchmark's own", report.Column{Unit: "µs", Better: report.Less}},
}

// A redisBench is all contestants, connected to one server.
type redisBench struct {
	*lab.Bench
	server  lab.Redis
	keys    []string
	samples report.Samples
	gaveUp  map[string]int64
}

const hotKey = "key-hot-hot-hot-"

// Redis measures limiters that keep their state in Redis at full speed: decisions per second, latency, processor time
// per decision, and the server's memory per key.
func Redis(bench *lab.Bench) report.Section {
	b := &redisBench{bench, bench.Redis(), lab.Keys(bench.Size(redisKeys)), report.Samples{}, map[string]int64{}}
	var limiters []lab.Limiter
	for _, c := range limiter.OnRedis {
		b.Step("fill %s", c.Name)
		l := c.Open(b.Bench, b.server.Addr, limiter.Slow)
		limiters = append(limiters, l)
		lab.Check(lab.Warm(b, l, append(b.keys, hotKey)))
	}
	for range b.Repeat {
		for _, cell := range redisCells() {
			for range cell.turns() {
				for i, c := range limiter.OnRedis {
					b.Step("%s callers: %s", cell.name, c.Name)
					b.measure(c, limiters[i], cell)
				}
			}
		}
	}
	s := b.section()
	s.Tables = append(s.Tables, b.weigh()...)
	return s
}

func (b *redisBench) measure(c limiter.Contestant, l lab.Limiter, cell redisCell) {
	load := lab.Load{
		ClosedLoop: lab.ClosedLoop{Callers: cell.callers, Duration: b.Cell(time.Second) / time.Duration(cell.turns())},
		Keys:       b.keys, MayGiveUp: c.MayGiveUp,
	}
	if cell.hot {
		if c.Bounded {
			return
		}
		load.Keys = []string{hotKey}
	}
	serverBefore, ownBefore := b.server.CPU(), lab.OwnCPU()
	served := lab.Must(load.Run(b, l))
	own, server := lab.OwnCPU()-ownBefore, b.server.CPU()-serverBefore
	decisions := float64(served.Decisions)
	for i, v := range []float64{served.PerSecond(), served.Millis(50), served.Millis(99), server * 1e6 / decisions, own.Seconds() * 1e6 / decisions} {
		b.samples.Add(c.Name, redisFigures[i].title+cell.name, v)
	}
	b.gaveUp[c.Name] += served.GaveUp
}

func (b *redisBench) section() report.Section {
	s := report.Section{
		Name:  "redis",
		Title: fmt.Sprintf("On Redis, %s keys, callers that ask again at once", report.Figure(float64(len(b.keys)))),
		Notes: []string{"Clients and server share this machine's processors. The reference is " + limiter.RedisRate + "; rows in brackets do less than a limiter must."},
	}
	for _, c := range limiter.OnRedis {
		if n := b.gaveUp[c.Name]; n > 0 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s gave up on %d calls, which count as load and not as decisions.", c.Name, n))
		}
	}
	for _, f := range redisFigures {
		f.column.Against = limiter.RedisRate
		var names []string
		for _, c := range redisCells() {
			names = append(names, c.name)
		}
		s.Tables = append(s.Tables, b.samples.Table(f.title+", by pattern and number of callers", f.title, report.Columns(f.column, names...), limiter.Rows(limiter.OnRedis)))
	}
	speed, cost := &s.Tables[0], &s.Tables[3]
	const lone, uniform, loneHot, hot = 0, 2, 3, 5 // columns, in the order of cells
	s.Goals = []report.Goal{
		report.AtLeast(fmt.Sprintf("redis: decisions/s vs %s, %d callers", limiter.RedisRate, most), 5, speed.Ratio(limiter.Headline, uniform), "×"),
		report.AtMost(fmt.Sprintf("redis: Redis CPU per decision vs %s, %d callers", limiter.RedisRate, most), 1.0/3, 1/cost.Ratio(limiter.Headline, uniform), "×"),
		report.AtLeast("redis: lone caller's decisions/s vs "+limiter.RedisRate, 1, speed.Ratio(limiter.Headline, lone), "×"),
		report.AtLeast("redis: lone caller's decisions/s on one key vs "+limiter.RedisRate, 1, speed.Ratio(limiter.Headline, loneHot), "×"),
		report.AtLeast(fmt.Sprintf("redis: one hot key vs uniform keys, %d callers", most), 0.8, speed.Value(limiter.Headline, hot)/speed.Value(limiter.Headline, uniform), "×"),
	}
	return s
}

// logEntries is how many requests every log is filled with.
const logEntries = 100

// weigh fills an empty server with each contestant's keys in turn: of those whose keys take the same space however much
// they are used, and of those that remember every request.
func (b *redisBench) weigh() []report.Table {
	server := b.Redis()
	var counters, logs []limiter.Contestant
	for _, c := range limiter.OnRedis {
		switch {
		case c.Name == limiter.OurLog || c.Name == limiter.FourTrips:
			logs = append(logs, c)
		case c.Name == limiter.OurTwo:
			counters = append(counters, c, limiter.ThreeLimits)
		case c.Role != report.Ceiling:
			counters = append(counters, c)
		}
	}
	return []report.Table{
		b.weights(server, "Redis memory per key", limiter.RedisRate, counters, b.keys, 1),
		b.weights(server, fmt.Sprintf("Redis memory per log of %d calls", logEntries), limiter.FourTrips, logs, b.keys[:b.Size(200)], logEntries),
	}
}

func (b *redisBench) weights(server lab.Redis, title, against string, all []limiter.Contestant, keys []string, requests int) report.Table {
	t := report.Table{Title: title, Columns: report.Columns(report.Column{Unit: "B/key", Better: report.Less, Against: against}, "used_memory", "MEMORY USAGE")}
	for _, c := range all {
		b.Step("weigh %s", c.Name)
		used := server.BytesPerKey(b.Bench, len(keys), func(n int) {
			l := c.Open(b.Bench, server.Addr, limiter.Slow)
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
		t.Rows = append(t.Rows, report.NewRow(c.Name, c.Role, used, sum/samples))
	}
	return t
}

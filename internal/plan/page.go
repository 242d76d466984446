package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/spelling"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// Default is a well-known textbook estimate: 500 million users a day, 2 billion a month, 100 requests a day
// each, 50 request types, 1 KB a request.
func Default() Input {
	in := Input{
		DailyUsers: 500e6, MonthlyUsers: 2e9, RequestsPerUser: 100, RequestBytes: 1e3, Peak: 3,
		LeaseSize: 100, CPU: 0.6, Cores: 8, ShardMemory: 32e9, Replicas: 1,
	}
	in.Rules = []RuleInput{in.Types(50, penstock.SlidingWindowCounter, time.Minute, 100)}
	return in
}

// Types returns request types that are all limited in the same way and share the requests evenly.
func (in *Input) Types(n float64, a penstock.Algorithm, window time.Duration, limit float64) RuleInput {
	return RuleInput{Name: "each request type", Count: n, Share: 1 / n, Keys: in.DailyUsers, Algorithm: a, Window: window, Limit: limit}
}

// isTextbook reports whether the traffic is that of Default.
func (in *Input) isTextbook() bool {
	d := Default()
	return in.DailyUsers == d.DailyUsers && in.RequestsPerUser == d.RequestsPerUser && in.RequestBytes == d.RequestBytes && len(in.Rules) == 1 && in.Rules[0].Count == 50
}

// Number formats 50,000,000,000 as 50 G.
func Number(n float64) string {
	for _, u := range []struct {
		from, size float64
		name       string
	}{{1e15, 1e15, " P"}, {1e12, 1e12, " T"}, {1e9, 1e9, " G"}, {1e6, 1e6, " M"}, {1e4, 1e3, " K"}} {
		if n >= u.from*0.9995 {
			return short(n/u.size) + u.name
		}
	}
	if n == math.Trunc(n) || n >= 1000 {
		return progress.Grouped(int64(math.Round(n)))
	}
	return short(n)
}

func short(n float64) string {
	if n >= 99.95 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3g", n)
}

func bytes(n float64) string {
	if n < 1e4 {
		return Number(n) + " B"
	}
	return Number(n) + "B"
}

// Page returns the plan for people.
func (p *Plan) Page() *toolreport.Page {
	in := &p.Input
	page := &toolreport.Page{Title: "Capacity plan"}
	page.Addf("%s users a day, %s requests each, %s a request, a peak of %s times the average.", Number(in.DailyUsers), Number(in.RequestsPerUser), bytes(in.RequestBytes), Number(in.Peak))
	traffic := &toolreport.Table{Caption: "Traffic", Columns: []string{"", "a day", "average", "peak"}}
	traffic.Row("requests", Number(p.RequestsPerDay), Number(p.Average)+"/s", Number(p.AtPeak)+"/s")
	traffic.Row("request and response bytes", bytes(p.BytesPerDay), bytes(p.Bandwidth)+"/s", bytes(p.PeakBandwidth)+"/s")
	page.Add(traffic)
	p.addCounters(page)
	p.addServers(page)
	p.addCosts(page)
	if in.isTextbook() {
		p.addTextbook(page)
	}
	return page
}

func (p *Plan) addCounters(page *toolreport.Page) {
	t := &toolreport.Table{Caption: "Counters", Columns: []string{"rule", "rules", "algorithm", "window", "keys a day", "live counters", "in process", "in Redis"}}
	for i := range p.Rules {
		r := &p.Rules[i]
		t.Row(r.Name, Number(r.Count), r.Algorithm, r.Window, Number(r.Keys), Number(r.Live), bytes(r.Memory.InProcess), bytes(r.Memory.Redis))
	}
	t.Row("live at the peak", "", "", "", "", Number(p.Live), bytes(p.Memory.InProcess), bytes(p.Memory.Redis))
	t.Row("if all of a day were live", "", "", "", "", Number(p.AllCounters), bytes(p.AllMemory.InProcess), bytes(p.AllMemory.Redis))
	page.Add(t, toolreport.Text("A counter expires when nothing before it counts any more: after two windows of a sliding_window_counter, one of the others."))
}

func (p *Plan) addServers(page *toolreport.Page) {
	in := &p.Input
	t := &toolreport.Table{Caption: fmt.Sprintf("Servers at the peak, %.0f %% busy at most", 100*in.CPU), Columns: []string{"", "", "why"}}
	t.Row("decisions", Number(p.Decisions)+"/s", "requests times the rules that apply to each")
	t.Row("asked of Redis", Number(p.StoreAsks)+"/s", fmt.Sprintf("deny cache and leases answer %.1f %%: %s denied, %s leased by %s", 100*p.Saved, percent(in.Denied), percent(in.Leased), Number(in.LeaseSize)))
	t.Row("Redis shards", Number(p.Shards), fmt.Sprintf("%s by CPU (%s cores busy), %s by memory (%s each, %.0f %% full)", Number(p.ShardsByCPU), Number(p.RedisCores), Number(p.ShardsByBytes), bytes(in.ShardMemory), 100*maxFill))
	t.Row("Redis servers", Number(p.RedisServers), fmt.Sprintf("with %s of each: %s in total", spelling.Count(int(in.Replicas), "replica"), bytes(p.RedisMemory)))
	t.Row("network to Redis", bytes(p.StoreTraffic)+"/s", bytes(p.Costs.Redis.Wire)+" a decision, both ways")
	t.Row("gateway nodes", Number(p.Gateways), fmt.Sprintf("of %s cores; %s cores busy", Number(in.Cores), Number(p.GatewayCores)))
	t.Row("or decision API nodes", Number(p.Checkers), fmt.Sprintf("of %s cores, beside proxies that ask", Number(in.Cores)))
	if p.Price > 0 {
		t.Row("price a month", Number(p.Price), fmt.Sprintf("%v a GB of Redis memory, %v a core, %v a GB of traffic", in.PriceMemory, in.PriceCore, in.PriceNetwork))
	}
	page.Add(t)
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

func (p *Plan) addCosts(page *toolreport.Page) {
	c := &p.Costs
	how := "Measured costs (defaults; --measure measures here)"
	if c.Measured {
		how = "Measured costs (what was measured now, and defaults)"
	}
	t := &toolreport.Table{Caption: how, Columns: []string{"", "in process", "Redis"}}
	t.Row("bytes per counter, key included", Number(c.Memory.Counter), Number(c.Redis.Counter))
	t.Row("bytes per sliding_window_log with one entry", Number(c.Memory.Log), Number(c.Redis.Log))
	t.Row("bytes for each more entry", Number(c.Memory.Entry), Number(c.Redis.Entry))
	t.Row("CPU per decision", c.Memory.Decision, c.Redis.Decision)
	page.Add(t, toolreport.Text("Redis bytes are those by which used_memory grows: value, key, expiry and Redis' own tables. MEMORY USAGE leaves the tables out and says 104."))
}

// addTextbook shows where the textbook's arithmetic is wrong.
func (p *Plan) addTextbook(page *toolreport.Page) {
	t := &toolreport.Table{Caption: "The textbook estimate with these numbers, checked", Columns: []string{"", "textbook says", "is"}}
	t.Row("requests a day", "50 billion", Number(p.RequestsPerDay))
	t.Row("requests a second", "400 K (another text)", fmt.Sprintf("%s on average, %s at the peak", Number(p.Average), Number(p.AtPeak)))
	t.Row("counters: users × types", "25 billion", Number(p.AllCounters))
	t.Row("storage at an assumed 100 B", "2.5 TB", bytes(p.AllCounters*100))
	t.Row("storage as measured, all live", "–", fmt.Sprintf("%s in process, %s in Redis", bytes(p.AllMemory.InProcess), bytes(p.AllMemory.Redis)))
	t.Row("transfer a day", "50 TB", bytes(p.BytesPerDay))
	t.Row("transfer an hour", "579 GB", bytes(p.BytesPerDay/24))
	t.Row("bandwidth", "161 MB/s", bytes(p.Bandwidth)+"/s")
	page.Add(t, toolreport.Text("50 TB a day divided by 24 and by 3,600 is 579 MB a second. The textbook takes that for GB an hour and divides by 3,600 once more."))
}

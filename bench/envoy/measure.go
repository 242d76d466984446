// Package envoy compares our rate limit service for Envoy with envoyproxy/ratelimit: the same limits file, the
// same gRPC requests, a separate Redis each. It verifies that both allow exactly the limit before it measures,
// and counts only expected answers. Compare compares their answers to random requests.
//
// The peer is a separate module, in ratelimit/: only its program is used.
package envoy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// callers are the numbers of callers that send requests without pause; the last is for saturation.
var callers = []int{16, 64, 256}

// A bench holds all contestants, and the results by row and figure. Figures have the traffic's name as a prefix.
type bench struct {
	*lab.Bench
	cell    time.Duration // of one repeat
	keys    []string      // allowed ones; a tenth as many are denied
	runners []runner
	report.Samples
}

// A runner is a running contestant.
type runner struct {
	contestant
	server *server
}

// Measure runs the benchmark.
func Measure(b *lab.Bench) report.Section {
	e := &bench{Bench: b, cell: b.Cell(5 * time.Second), keys: lab.Keys(b.Size(100_000)), Samples: report.Samples{}}
	dir := b.TempDir("")
	build(b, dir)
	for _, c := range contestants(dir) {
		b.Step("start and fill %s", c.name)
		r := runner{c, launch(b, dir, c)}
		e.runners = append(e.runners, r)
		if c.role != report.Ceiling {
			check(b, r.server)
		}
		for _, t := range traffics {
			lab.Check(lab.Warm(b, newLoadTarget(r.server, t), e.keysOf(t)))
		}
	}
	s := report.Section{Name: "envoy", Title: "Envoy's rate limit service on Redis", Notes: notes}
	for _, t := range traffics {
		e.atFullSpeed(t)
		e.add(&s, t, e.atFixedInstants(t))
	}
	return s
}

// check verifies that the compared servers do the same: of many concurrent requests exactly the limit pass,
// requests without a limit pass, and each answer has one status, with the limit.
func check(b *lab.Bench, s *server) {
	const callers, each, limit = 32, 8, 100
	var mu sync.Mutex
	codes := map[rlsv3.RateLimitResponse_Code]int{}
	lab.Check(lab.Parallel(callers, func(i int) error {
		for range each {
			r, err := s.client(i).ShouldRateLimit(b, request("exact", "the-only-one----"))
			if err != nil {
				return err
			}
			if len(r.Statuses) != 1 || r.Statuses[0].Code != r.OverallCode || r.Statuses[0].CurrentLimit.GetRequestsPerUnit() != limit {
				return fmt.Errorf("an answer like %v", r)
			}
			mu.Lock()
			codes[r.OverallCode]++
			mu.Unlock()
		}
		return nil
	}))
	if ok, over := codes[rlsv3.RateLimitResponse_OK], codes[rlsv3.RateLimitResponse_OVER_LIMIT]; ok != limit || over != callers*each-limit {
		lab.Check(fmt.Errorf("%d of %d calls passed and %d were denied; the limit is %d", ok, callers*each, over, limit))
	}
	if r := lab.Must(s.client(0).ShouldRateLimit(b, request("nothing", "unknown---------"))); r.OverallCode != rlsv3.RateLimitResponse_OK {
		lab.Check(errors.New("what no limit is for was denied"))
	}
}

func (b *bench) keysOf(t traffic) []string { return b.keys[:max(1, len(b.keys)/t.of)] }

// Figures.
const (
	serverCPU  = "server CPU"
	redisCPU   = "Redis CPU"
	p50, p99   = "p50", "p99"
	saturation = "saturation" // the most decisions per second, over all numbers of callers

	scheduled = "scheduled " // prefix of figures measured on a schedule
)

func perSecond(callers int) string { return fmt.Sprintf("decisions, %d callers", callers) }

// atFullSpeed measures with callers that send requests without pause.
func (b *bench) atFullSpeed(t traffic) {
	for range b.Repeat {
		for _, n := range callers {
			for _, r := range b.runners {
				b.Step("%s, %d callers: %s", t.name, n, r.name)
				b.remind(r, t)
				before := r.server.used()
				served := lab.Must(lab.Load{ClosedLoop: lab.ClosedLoop{Callers: n, Duration: b.cell}, Keys: b.keysOf(t)}.Run(b, newLoadTarget(r.server, t)))
				b.Add(r.name, t.name+perSecond(n), served.PerSecond())
				if n == slices.Max(callers) {
					b.note(r, t.name, served.Millis(50), served.Millis(99), before, float64(served.Decisions))
				}
			}
		}
	}
	for _, r := range b.runners {
		fastest := 0.0
		for _, n := range callers {
			fastest = max(fastest, b.Median(r.name, t.name+perSecond(n)))
		}
		b.Add(r.name, t.name+saturation, fastest)
	}
}

// remind asks about each denied key once. The cell that follows is about clients that are denied again and again, but
// during the turns of the others ours may have forgotten them: it asks Redis about each once a minute.
func (b *bench) remind(r runner, t traffic) {
	if t.want == rlsv3.RateLimitResponse_OVER_LIMIT {
		lab.Check(lab.Warm(b, newLoadTarget(r.server, t), b.keysOf(t)))
	}
}

func (b *bench) note(r runner, prefix string, median, tail float64, before cpuTime, decisions float64) {
	after := r.server.used()
	b.Add(r.name, prefix+p50, median)
	b.Add(r.name, prefix+p99, tail)
	b.Add(r.name, prefix+serverCPU, float64((after.server-before.server).Microseconds())/decisions)
	b.Add(r.name, prefix+redisCPU, float64((after.redis-before.redis).Microseconds())/decisions)
}

// atFixedInstants measures with requests on a schedule, at a rate that all can sustain, and returns the rate.
func (b *bench) atFixedInstants(t traffic) float64 {
	rate := b.Median(b.runners[0].name, t.name+saturation)
	for _, r := range b.runners {
		rate = min(rate, b.Median(r.name, t.name+saturation))
	}
	rate /= 3
	for range b.Repeat {
		for _, r := range b.runners {
			b.Step("%s, %.0f/s: %s", t.name, rate, r.name)
			b.remind(r, t)
			before := r.server.used()
			waited := lab.Must(lab.OpenLoop{PerSecond: rate, Duration: b.cell, Keys: b.keysOf(t)}.Run(b, newLoadTarget(r.server, t)))
			b.note(r, scheduled+t.name, lab.Millis(waited.Latency, 50), lab.Millis(waited.Latency, 99), before, float64(int64(rate*b.cell.Seconds())))
		}
	}
	return rate
}

// add writes the results for a traffic, and the goals: clearly ahead of the best peer.
func (b *bench) add(s *report.Section, t traffic, rate float64) {
	costs := []report.Column{
		{Name: serverCPU, Unit: "µs", Better: report.Less},
		{Name: redisCPU, Unit: "µs", Better: report.Less},
		{Name: p50, Unit: "ms", Better: report.Less},
		{Name: p99, Unit: "ms", Better: report.Less},
	}
	columns := []report.Column{{Name: saturation, Unit: "/s", Better: report.More}}
	for _, n := range callers {
		columns = append(columns, report.Column{Name: perSecond(n), Unit: "/s", Better: report.More})
	}
	var rows []report.Row
	for _, r := range b.runners {
		rows = append(rows, report.NewRow(r.name, r.role))
	}
	keys := report.Figure(float64(len(b.keysOf(t))))
	atSpeed := b.Table(fmt.Sprintf("Every call %s, of %s keys; callers that ask again at once; processor time and latency with %d", t.name, keys, slices.Max(callers)),
		t.name, append(columns, costs...), rows).AgainstBestPeer()
	onTime := b.Table(fmt.Sprintf("Every call %s, of %s keys; %s/s at fixed instants; latency from the scheduled instant", t.name, keys, report.Figure(rate)),
		scheduled+t.name, costs, rows).AgainstBestPeer()
	s.Tables = append(s.Tables, atSpeed, onTime)
	for _, g := range []struct {
		name   string
		table  *report.Table
		figure string
	}{
		{"decisions/s at saturation", &atSpeed, saturation},
		{"server CPU per decision at saturation", &atSpeed, serverCPU},
		{"server CPU per decision at fixed instants", &onTime, serverCPU},
		{"p99 at saturation", &atSpeed, p99},
		{"p99 at fixed instants", &onTime, p99},
	} {
		measured := g.table.Ratio(headline, lab.Must(g.table.Column(g.figure)))
		s.Goals = append(s.Goals, report.AtLeast(fmt.Sprintf("envoy, %s: %s, times better than the best", t.name, g.name), 1.2, measured, "×"))
	}
	s.Goals = append(s.Goals, report.AtMost(fmt.Sprintf("envoy, %s: server CPU per decision at saturation vs %s", t.name, bareGRPC), 1.15,
		b.Median(headline, t.name+serverCPU)/b.Median(bareGRPC, t.name+serverCPU), "×"))
}

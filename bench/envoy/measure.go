// Package envoy compares our rate limit service for Envoy with envoyproxy/ratelimit: the same limits file, the
// same gRPC requests, a separate Redis each. It verifies that both allow exactly the limit before it measures,
// and counts only expected answers. TestCompare compares their answers to random requests.
//
// The peer is a separate module, in ratelimit/: only its program is used.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
)

// callers are the numbers of callers that send requests without pause; the last is for saturation.
var callers = []int{16, 64, 256}

// turns is into how many turns a cell is divided, so that the contestants alternate more often: other users of the
// processors slow down everything for some seconds.
const turns = 4

type bench struct {
	*lab.Bench
	cell    time.Duration       // of one turn
	keys    map[string][]string // requests, by the name of a traffic
	runners []runner
}

type runner struct {
	contestant
	*server
}

// Measure runs the benchmark.
func Measure(b *lab.Bench) report.Section {
	e := &bench{Bench: b, cell: b.Cell(5*time.Second) / turns, keys: map[string][]string{}}
	for _, t := range traffics {
		e.keys[t.name] = t.requests(b.Size(100_000))
	}
	dir := b.TempDir("")
	build(b, dir)
	for _, c := range contestants(dir) {
		b.Step("start and fill %s", c.name)
		r := runner{c, launch(b, dir, c.command)}
		e.runners = append(e.runners, r)
		if c.role != report.Ceiling {
			check(b, r.server)
		}
		for _, t := range traffics {
			lab.Check(lab.Warm(b, r.target(t), e.keys[t.name]))
		}
	}
	s := report.Section{Name: "envoy", Title: "Envoy's rate limit service on Redis", Notes: notes}
	for _, t := range traffics {
		atSpeed := e.atFullSpeed(t)
		onTime := e.atFixedInstants(t, atSpeed)
		s.Tables = append(s.Tables, atSpeed, onTime)
		addGoals(&s, t, atSpeed, onTime)
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

// inTurn returns the contestants, in each turn another one first: the first of two that are alike had a p99 a quarter
// longer.
func (b *bench) inTurn(turn int) []runner {
	first := turn % len(b.runners)
	return slices.Concat(b.runners[first:], b.runners[:first])
}

// costs returns the columns of both tables, as measure returns them.
func costs() []report.Column {
	return append(report.Less.In("µs", "server CPU", "Redis CPU"), report.Less.In("ms", "p50", "p99")...)
}

// measure runs a load on a contestant. It returns its result, and the costs per decision.
func (b *bench) measure(r runner, t traffic, run func(context.Context, lab.Limiter) (lab.LoadResult, error)) (lab.LoadResult, []float64) {
	target := r.target(t)
	// The cell is about clients that are denied again and again, but during the turns of the others ours may have
	// forgotten them: it asks Redis about each once a minute.
	if t.want == rlsv3.RateLimitResponse_OVER_LIMIT {
		lab.Check(lab.Warm(b, target, b.keys[t.name]))
	}
	serverBefore, redisBefore := lab.Must(lab.CPU(r.Pid())), r.redis.CPU()
	result := lab.Must(run(b, target))
	server, redis := lab.Must(lab.CPU(r.Pid()))-serverBefore, r.redis.CPU()-redisBefore
	decisions := float64(result.Decisions)
	return result, []float64{server.Seconds() * 1e6 / decisions, redis * 1e6 / decisions, result.Millis(50), result.Millis(99)}
}

// atFullSpeed measures with callers that send requests without pause. The saturation is the most decisions per second,
// over all numbers of callers.
func (b *bench) atFullSpeed(t traffic) *report.Table {
	names := []string{"saturation"}
	for _, n := range callers {
		names = append(names, fmt.Sprintf("decisions, %d callers", n))
	}
	table := report.NewTable(fmt.Sprintf("Every call %s, of %s keys; callers that ask again at once; processor time and latency with %d",
		t.name, report.Figure(float64(len(b.keys[t.name]))), slices.Max(callers)), report.More.In("/s", names...), costs())
	for turn := range b.Repeat * turns {
		for i, n := range callers {
			for _, r := range b.inTurn(turn) {
				b.Step("%s, %d callers: %s", t.name, n, r.name)
				served, spent := b.measure(r, t, lab.Load{ClosedLoop: lab.ClosedLoop{Callers: n, Duration: b.cell}, Keys: b.keys[t.name]}.Run)
				table.Add(r.name, r.role, 1+i, served.PerSecond())
				if n == slices.Max(callers) {
					table.Add(r.name, r.role, len(names), spent...)
				}
			}
		}
	}
	for _, r := range table.Rows {
		table.Add(r.Name, r.Role, saturation, float64(slices.Max(r.Values[1:len(names)])))
	}
	table.AgainstBestPeer()
	return table
}

const saturation = 0 // the column

// atFixedInstants measures with requests on a schedule, at a rate that all can sustain.
func (b *bench) atFixedInstants(t traffic, atSpeed *report.Table) *report.Table {
	rate := math.Inf(1)
	for _, r := range b.runners {
		rate = min(rate, atSpeed.Value(r.name, saturation)/3)
	}
	table := report.NewTable(fmt.Sprintf("Every call %s, of %s keys; %s/s at fixed instants; latency from the scheduled instant",
		t.name, report.Figure(float64(len(b.keys[t.name]))), report.Figure(rate)), costs())
	for turn := range b.Repeat * turns {
		for _, r := range b.inTurn(turn) {
			b.Step("%s, %.0f/s: %s", t.name, rate, r.name)
			_, spent := b.measure(r, t, lab.OpenLoop{PerSecond: rate, Duration: b.cell, Keys: b.keys[t.name]}.Run)
			table.Add(r.name, r.role, 0, spent...)
		}
	}
	table.AgainstBestPeer()
	return table
}

// addGoals adds the goals for a traffic: clearly ahead of the best peer.
func addGoals(s *report.Section, t traffic, atSpeed, onTime *report.Table) {
	fast, steady := 1+len(callers), 0 // the first columns of costs
	const cpu, p99 = 0, 3             // among the costs
	for _, g := range []struct {
		name   string
		table  *report.Table
		column int
	}{
		{"decisions/s at saturation", atSpeed, saturation},
		{"server CPU per decision at saturation", atSpeed, fast + cpu},
		{"server CPU per decision at fixed instants", onTime, steady + cpu},
		{"p99 at saturation", atSpeed, fast + p99},
		{"p99 at fixed instants", onTime, steady + p99},
	} {
		s.AtLeast(fmt.Sprintf("envoy, %s: %s, times better than the best", t.name, g.name), 1.2, g.table.Ratio(headline, g.column), "×")
	}
	s.AtMost(fmt.Sprintf("envoy, %s: server CPU per decision at saturation vs %s", t.name, bareGRPC), 1.15,
		1/atSpeed.Times(headline, bareGRPC, fast+cpu), "×")
}

package envoy

import (
	"fmt"
	"sync"
	"sync/atomic"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/penstock-io/penstock/bench/lab"
)

// Comparison is the number of comparisons, and every difference.
type Comparison struct {
	Requests, Statuses, Denied, Refused, Refunds int64 // Refused requests got an error from all
	Metrics                                      int   // series of envoyproxy/ratelimit that have the same value
	Differences                                  []string
}

// workers send requests at the same time, each about its own domain.
const workers = 4

// maxDifferences is how many are reported.
const maxDifferences = 20

// A round compares under one pair of configurations.
type round struct {
	name   string
	ours   string   // YAML
	rules  string   // further settings of its rules
	theirs []string // environment
	alone  bool     // compare only with the model
	model  model    // its settings

	ourMetrics, theirMetrics string // URLs
}

const oursInCommon = `headers: [none]
envoy: {denial_headers: false, denial_body: none, response_dynamic_metadata: true, response_headers: {enabled: true%s}%s}
metrics: {compat: envoy_ratelimit}
`

// rounds are all configurations. The version of envoyproxy/ratelimit that the benchmarks are built with has no
// negative hits, no metadata of limits and another quota mode. So these are compared with the model alone, which
// is compared with that service in all other rounds.
var rounds = []round{
	{name: "as it comes", ours: fmt.Sprintf(oursInCommon, "", "")},
	{name: "local cache", ours: fmt.Sprintf(oursInCommon, "", ""), theirs: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000"}},
	{name: "shadow mode, other header names",
		ours:   fmt.Sprintf(oursInCommon, ", limit: X-L, remaining: X-R, reset: X-S", ", shadow_mode: true"),
		theirs: []string{"SHADOW_MODE=true", "LIMIT_LIMIT_HEADER=X-L", "LIMIT_REMAINING_HEADER=X-R", "LIMIT_RESET_HEADER=X-S"},
		model:  model{shadow: true, headers: [3]string{"X-L", "X-R", "X-S"}}},
	{name: "stop increments when over limit", ours: fmt.Sprintf(oursInCommon, "", ""), rules: ", charge: unless_over",
		theirs: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}, model: model{unlessOver: true}},
	{name: "negative hits, quota mode of limits, metadata", ours: fmt.Sprintf(oursInCommon, "", ", negative_hits: true"), alone: true, model: model{newest: true}},
	{name: "negative hits, quota mode, stop increments", ours: fmt.Sprintf(oursInCommon, "", ", negative_hits: true, quota_mode: true"), rules: ", charge: unless_over",
		alone: true, model: model{newest: true, quota: true, unlessOver: true}},
}

// Compare sends the same random requests to Penstock, to envoyproxy/ratelimit and to a model of it.
func Compare(b *lab.Bench, requests int, seed uint64) *Comparison {
	c := &comparison{Bench: b, seed: seed, bin: b.TempDir("")}
	build(b, c.bin)
	for i := range rounds {
		n := requests*(i+1)/len(rounds) - requests*i/len(rounds)
		b.Step("%s: %d requests", rounds[i].name, n)
		b.Scope(func() { c.round(&rounds[i], n) })
		if len(c.all.Differences) > 0 {
			break // later rounds have other counters, but would show the same differences
		}
	}
	return &c.all
}

type comparison struct {
	*lab.Bench
	seed uint64
	bin  string

	mu  sync.Mutex
	all Comparison
}

func (c *comparison) differ(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all.Differences) < maxDifferences {
		c.all.Differences = append(c.all.Differences, fmt.Sprintf(format, args...))
	}
}

// round starts both servers and sends them requests.
func (c *comparison) round(r *round, requests int) {
	ours := launch(c.Bench, c.bin, contestant{name: "Penstock", command: r.oursCommand(c.bin)})
	var theirs *server
	if !r.alone {
		theirs = launch(c.Bench, c.bin, contestant{name: "envoyproxy/ratelimit", command: r.theirsCommand(c.bin)})
	}
	var left atomic.Int64
	left.Store(int64(requests))
	lab.Check(lab.Parallel(workers, func(w int) error {
		a := newWorker(c, r, ours, theirs, w)
		for left.Add(-1) >= 0 && c.Err() == nil {
			a.next()
		}
		return c.Err()
	}))
	if r.name == "as it comes" {
		c.metrics(r)
	}
}

// A worker sends the requests of one connection.
type worker struct {
	*comparison
	round *round
	ours  rlsv3.RateLimitServiceClient
	peer  rlsv3.RateLimitServiceClient // nil: there is none
	model *model
	made  *generator
}

func newWorker(c *comparison, r *round, ours, theirs *server, number int) *worker {
	m := r.model
	m.reset()
	a := &worker{comparison: c, round: r, model: &m, ours: ours.client(number), made: newGenerator(c.seed, number, m.newest)}
	if theirs != nil {
		a.peer = theirs.client(number)
	}
	return a
}

// next sends one request to all.
func (a *worker) next() {
	request := a.made.request()
	got, gotErr := a.ours.ShouldRateLimit(a, request)
	want, wantErr := a.model.answer(request)
	a.compare("the model", request, got, gotErr, want, wantErr)
	if a.peer != nil {
		want, wantErr := a.peer.ShouldRateLimit(a, request)
		a.compare("envoyproxy/ratelimit", request, got, gotErr, want, wantErr)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all.Requests++
	a.all.Statuses += int64(len(got.GetStatuses()))
	if gotErr != nil {
		a.all.Refused++
	}
	if got.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		a.all.Denied++
	}
	for _, d := range request.Descriptors {
		if d.GetIsNegativeHits() {
			a.all.Refunds++
		}
	}
}

func (a *worker) compare(with string, request *rlsv3.RateLimitRequest, got *rlsv3.RateLimitResponse, gotErr error, want *rlsv3.RateLimitResponse, wantErr error) {
	if (gotErr != nil) != (wantErr != nil) {
		a.differ("%s, %v: Penstock %v, %s %v", a.round.name, request, gotErr, with, wantErr)
	} else if gotErr == nil {
		if got, want := canonical(got), canonical(want); !same(got, want) {
			a.differ("%s, %v:\nPenstock %+v\n%s %+v", a.round.name, request, got, with, want)
		}
	}
}

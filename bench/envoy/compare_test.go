package envoy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock/bench/lab"
)

// workers send requests at the same time, each about its own domain.
const workers = 4

// maxDifferences is how many are reported.
const maxDifferences = 20

// A round compares under one pair of configurations.
type round struct {
	name    string
	headers string   // settings of our envoy.response_headers
	envoy   string   // of our envoy
	rules   string   // of our rules
	theirs  []string // their environment

	ourMetrics, theirMetrics string // URLs
}

// rounds are all configurations that both services have. The version of envoyproxy/ratelimit that the benchmarks are
// built with has no negative hits, no metadata of limits and another quota mode.
var rounds = []round{
	{name: "as it comes"},
	{name: "local cache", theirs: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000000"}},
	{name: "shadow mode, other header names", headers: ", limit: X-L, remaining: X-R, reset: X-S", envoy: ", shadow_mode: true",
		theirs: []string{"SHADOW_MODE=true", "LIMIT_LIMIT_HEADER=X-L", "LIMIT_REMAINING_HEADER=X-R", "LIMIT_RESET_HEADER=X-S"}},
	{name: "stop increments when over limit", rules: ", charge: unless_over", theirs: []string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}},
}

// A comparison is the number of comparisons, and every difference.
type comparison struct {
	*lab.Bench
	seed uint64
	bin  string

	mu                                  sync.Mutex
	requests, statuses, denied, refused int64 // refused requests got an error from both
	metrics                             int   // series of envoyproxy/ratelimit that have the same value
	differences                         []string
}

// compare sends the same random requests to Penstock and to envoyproxy/ratelimit.
func compare(b *lab.Bench, requests int, seed uint64) *comparison {
	c := &comparison{Bench: b, seed: seed, bin: b.TempDir("")}
	build(b, c.bin)
	for i := range rounds {
		n := requests*(i+1)/len(rounds) - requests*i/len(rounds)
		b.Step("%s: %d requests", rounds[i].name, n)
		b.Scope(func() { c.round(&rounds[i], n) })
		if len(c.differences) > 0 {
			break // later rounds have other counters, but would show the same differences
		}
	}
	return c
}

func (c *comparison) differ(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.differences) < maxDifferences {
		c.differences = append(c.differences, fmt.Sprintf(format, args...))
	}
}

// round starts both servers and sends them requests.
func (c *comparison) round(r *round, requests int) {
	ours := launch(c.Bench, c.bin, contestant{name: "Penstock", command: r.oursCommand(c.bin)})
	theirs := launch(c.Bench, c.bin, contestant{name: "envoyproxy/ratelimit", command: r.theirsCommand(c.bin)})
	var left atomic.Int64
	left.Store(int64(requests))
	lab.Check(lab.Parallel(workers, func(w int) error {
		made := newGenerator(c.seed, w)
		for left.Add(-1) >= 0 && c.Err() == nil {
			c.send(r, made.request(), ours.client(w), theirs.client(w))
		}
		return c.Err()
	}))
	if r.name == "as it comes" {
		c.compareMetrics(r)
	}
}

// send sends one request to both.
func (c *comparison) send(r *round, request *rlsv3.RateLimitRequest, ours, theirs rlsv3.RateLimitServiceClient) {
	got, gotErr := ours.ShouldRateLimit(c, request)
	want, wantErr := theirs.ShouldRateLimit(c, request)
	if (gotErr != nil) != (wantErr != nil) {
		c.differ("%s, %v: Penstock %v, envoyproxy/ratelimit %v", r.name, request, gotErr, wantErr)
	} else if gotErr == nil {
		if got, want := canonical(got), canonical(want); !same(got, want) {
			c.differ("%s, %v:\nPenstock %+v\nenvoyproxy/ratelimit %+v", r.name, request, got, want)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	c.statuses += int64(len(got.GetStatuses()))
	if gotErr != nil {
		c.refused++
	}
	if got.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT {
		c.denied++
	}
}

// An answer is a response without the parts that may differ: the seconds left in a window, and fields that one of
// the services does not have.
type answer struct {
	text   string  // everything else
	resets []int64 // seconds, of statuses and of a header
}

// omitted are fields of the dynamic metadata that only one service has: ours, and the older quota mode of the
// version that the benchmarks are built with.
var omitted = []string{"penstock", "quotaModeEnabled", "quotaModeViolations"}

func canonical(r *rlsv3.RateLimitResponse) (a answer) {
	r = proto.CloneOf(r)
	for _, s := range r.Statuses {
		if s.DurationUntilReset != nil {
			a.resets = append(a.resets, s.DurationUntilReset.Seconds)
			s.DurationUntilReset = nil
		}
	}
	if h := r.ResponseHeadersToAdd; len(h) > 2 {
		if seconds, err := strconv.ParseInt(h[2].Value, 10, 64); err == nil {
			a.resets = append(a.resets, seconds)
			h[2].Value = ""
		}
	}
	for _, name := range omitted {
		delete(r.DynamicMetadata.GetFields(), name)
	}
	a.text = strings.ReplaceAll(protojson.Format(r), " ", "") // texts of protobuf contain random spaces
	return a
}

// same reports whether answers differ by no more than the time between two requests.
func same(a, b answer) bool {
	const patience = 60 // seconds: the machine may be busy
	return a.text == b.text && slices.EqualFunc(a.resets, b.resets, func(a, b int64) bool { return a-b <= patience && b-a <= patience })
}

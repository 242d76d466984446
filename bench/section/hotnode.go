package section

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/breaker"
	"github.com/penstock-io/penstock/engine/denycache"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

// Paths, each with its rule.
const (
	exactPath  = "/exact"
	leasedPath = "/leased"
	deniedPath = "/denied"
	scarcePath = "/scarce"
)

const (
	roomy        = 1_000_000_000 // more than a benchmark uses
	roomyWindow  = 366 * 24 * time.Hour
	scarceWindow = time.Second
)

// hotRules returns the rules of all nodes. The window of the denied rule is longer than a benchmark, so that a client
// that has used its one request stays denied.
func hotRules(scarce int64) *rules.Snapshot {
	return compile(fmt.Sprintf(`
rules:
  - {name: exact, match: {path: %s}, key: [user], limits: [{rate: %d/366d, algorithm: fixed_window}]}
  - {name: leased, match: {path: %s}, key: [user], consistency: leased, limits: [{rate: %d/366d, algorithm: fixed_window}]}
  - {name: denied, match: {path: %s}, key: [user], limits: [{rate: 1/366d, algorithm: token_bucket}]}
  - {name: scarce, match: {path: %s}, key: [user], consistency: leased, limits: [{rate: %d/1s, algorithm: fixed_window}]}
`, exactPath, roomy, leasedPath, roomy, deniedPath, scarcePath, scarce))
}

// A node is an engine with its own connections, leases and deny cache, as in internal/server.
type node struct {
	*engine.Engine
	redis *redisstore.Store
}

// openNode opens a node until the end of the scope.
func openNode(b *lab.Bench, o redisstore.Options, s *rules.Snapshot) *node {
	memory := openMemory(b, memstore.Options{})
	o.Timeout = 10 * time.Second // a busy machine slows a benchmark down and does not end it
	redis := lab.Must(redisstore.Open(o))
	b.Cleanup(func() { redis.Close() })
	around := lab.Must(breaker.New(breaker.Options{Store: redis, Probe: redis.PingZone}))
	b.Cleanup(around.Close)
	leases := lab.Must(lease.New(around, lease.Options{}))
	denied := lab.Must(denycache.New(leases, denycache.Options{}))
	return &node{lab.Must(engine.New(engine.Options{Store: denied, Local: memory, Rules: engine.Fixed(s)})), redis}
}

func newCall(path, user string) *penstock.Call {
	return &penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "path", Value: path}, {Name: "user", Value: user}}}
}

// A nodeLoad is callers of one key who use the nodes in turn.
type nodeLoad struct {
	nodes      []*node
	callers    int
	path, user string
	duration   time.Duration
	window     time.Duration // period by which allowed requests are counted
}

// A nodeResult is the result of a load on nodes, and the work of Redis per decision.
type nodeResult struct {
	lab.LoadResult
	windows      windows
	asked, calls float64
	micros       float64 // processor time
}

// windows are the allowed requests in each window, by its start.
type windows map[penstock.Instant]int64

func (w windows) admitted() (all int64) {
	for _, n := range w {
		all += n
	}
	return all
}

// fullest returns the most requests allowed in one window.
func (w windows) fullest() int64 { return slices.Max(append(slices.Collect(maps.Values(w)), 0)) }

// emptiest returns the fewest requests allowed in one window, without the first and the last, which are not whole.
// If there are no others, it returns the most.
func (w windows) emptiest() int64 {
	starts := slices.Sorted(maps.Keys(w))
	if len(starts) < 3 {
		return w.fullest()
	}
	least := w[starts[1]]
	for _, start := range starts[1 : len(starts)-1] {
		least = min(least, w[start])
	}
	return least
}

// check fails if more was allowed in a window than its limit.
func (w windows) check(limit int64) error {
	if n := w.fullest(); n > limit {
		return fmt.Errorf("%d calls passed in a window, and the limit is %d", n, limit)
	}
	return nil
}

func (l nodeLoad) run(b *lab.Bench, server lab.Redis) nodeResult {
	r := nodeResult{windows: windows{}}
	window := penstock.Instant(l.window.Microseconds())
	each := make([]windows, l.callers)
	before := l.usage(server)
	r.LoadResult = lab.Must(lab.ClosedLoop{Callers: l.callers, Duration: l.duration}.Run(b, func(i int) func(int) error {
		node, call, own := l.nodes[i%len(l.nodes)], newCall(l.path, l.user), windows{}
		each[i] = own
		var v penstock.Verdict
		return func(int) error {
			if err := node.Decide(b, call, &v); err != nil {
				return fmt.Errorf("%s of %q: %w", l.path, l.user, err)
			}
			if v.Allowed {
				// Leases do not outlive their window, so the verdict's time is in the window that was charged.
				own[v.Now-v.Now%window]++
			}
			return nil
		}
	}))
	after := l.usage(server)
	for _, own := range each {
		for start, n := range own {
			r.windows[start] += n
		}
	}
	decisions := float64(r.Decisions)
	r.asked, r.calls, r.micros = (after[0]-before[0])/decisions, (after[1]-before[1])/decisions, (after[2]-before[2])*1e6/decisions
	return r
}

// usage returns what Redis has done so far: tickets, calls, and seconds of processor time.
func (l nodeLoad) usage(server lab.Redis) (u [3]float64) {
	for _, n := range l.nodes {
		u[0] += float64(n.redis.Stats().Tickets)
	}
	_, text, _ := strings.Cut(server.Command("INFO", "commandstats"), "cmdstat_evalsha:calls=")
	calls, _, _ := strings.Cut(text, ",")
	u[1], _ = strconv.ParseFloat(calls, 64) // none so far if there is no number
	u[2] = server.CPU()
	return u
}

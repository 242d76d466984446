package section

import (
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/storestack"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/rules"
)

const (
	members = 3  // nodes that share a hot key
	some    = 64 // callers in the goal for the latency

	// Paths, each with its rule.
	exactPath  = "/exact"
	leasedPath = "/leased"
	deniedPath = "/denied"
	scarcePath = "/scarce"

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

// Hot measures the paths that keep load away from Redis, at engine.Decide, with the stores that internal/server puts
// around it: decisions by Redis, denials from a node's deny cache, and requests covered by leases. It also measures
// what one hot key on several nodes costs Redis. It has no peers: the reference is the exact decision.
func Hot(b *lab.Bench) report.Section {
	s := report.Section{Name: "hot", Title: "Hot paths, at engine.Decide on Redis", Notes: []string{
		"The stores are those of a server: deny cache around leases around a breaker around Redis, and a store in memory that counts along. All calls are of one key. Callers ask again at once and share this machine's processors with Redis.",
		"Asked of Redis are decisions that Redis makes, however many travel in one call; the goals are about them.",
	}}
	server, scarce := b.Redis(), int64(b.Size(200_000))
	snapshot := hotRules(scarce)
	var nodes []*node
	for range members {
		nodes = append(nodes, openNode(b, redisstore.Options{Addresses: []string{server.Addr}}, snapshot))
	}
	// The parts measure in turn.
	measurePaths, addPaths := hotPaths(b, server, nodes[:1])
	measureNodes, addNodes := hotNodes(b, server, nodes, scarce)
	for turn := range b.Repeat {
		measurePaths()
		measureNodes(fmt.Sprintf("turn %d", turn)) // a new client every time, so that everything allowed under a limit is counted
	}
	addPaths(&s)
	addNodes(&s)
	return s
}

// deny makes nodes learn that a client is denied. The next request is measured.
func deny(b *lab.Bench, nodes []*node, user string) {
	var v penstock.Verdict
	for _, n := range nodes {
		for range 2 { // the very first request is allowed
			lab.Check(n.Decide(b, newCall(deniedPath, user), &v))
		}
	}
	if v.Allowed {
		lab.Check(fmt.Errorf("two calls of %q pass, of which one should", user))
	}
}

// redisCosts returns the columns of what a decision costs Redis.
func redisCosts() []report.Column {
	return append(report.Less.In("/decision", "asked of Redis", "Redis calls"), report.Less.In("µs/decision", "Redis CPU")...)
}

// hotPaths compares the paths by which requests are decided on one node, a row each, with numbers of callers.
func hotPaths(b *lab.Bench, server lab.Redis, node []*node) (measure func(), add func(*report.Section)) {
	const user = "along the paths"
	callers := []int{2, some, most}
	by := func(figure string) (names []string) {
		for _, n := range callers {
			names = append(names, fmt.Sprintf("%s, %d callers", figure, n))
		}
		return names
	}
	paths := []struct {
		name, path string
		passes     bool
	}{{"exact", exactPath, true}, {"leased", leasedPath, true}, {"cached deny", deniedPath, false}}
	speed := report.NewTable("Decisions a second on one node, by number of callers", report.More.In("/s", by("decisions")...)).Against("exact")
	waits := report.NewTable("What callers wait", report.Less.In("µs", by("p50")...), report.Less.In("µs", by("p99")...)).Against("exact")
	costs := report.NewTable(fmt.Sprintf("What a decision costs Redis, %d callers", most), redisCosts())
	deny(b, node, user)
	measure = func() {
		for i, n := range callers {
			for _, p := range paths {
				b.Step("%d callers: %s", n, p.name)
				r := nodeLoad{node, n, p.path, user, b.Cell(2 * time.Second), roomyWindow}.run(b, server)
				if n, want := r.windows.admitted(), map[bool]int64{true: r.Decisions}[p.passes]; n != want {
					lab.Check(fmt.Errorf("%d of %d calls passed, and %d should have", n, r.Decisions, want))
				}
				speed.Add(p.name, report.Ours, i, r.PerSecond())
				waits.Add(p.name, report.Ours, i, r.Millis(50)*1e3)
				waits.Add(p.name, report.Ours, len(callers)+i, r.Millis(99)*1e3)
				if n == most {
					costs.Add(p.name, report.Ours, 0, r.costs[:]...)
				}
			}
		}
	}
	return measure, func(s *report.Section) {
		s.Tables = append(s.Tables, speed, waits, costs)
		for _, p := range paths {
			s.Below(fmt.Sprintf("hot: p99, %s, %d callers", p.name, some), 2, waits.Value(p.name, len(callers)+slices.Index(callers, some))/1e3, " ms")
		}
	}
}

// hotNodes measures loads on one key on several nodes, a row each.
func hotNodes(b *lab.Bench, server lab.Redis, nodes []*node, scarce int64) (measure func(user string), add func(*report.Section)) {
	loads := []struct {
		name, path string
		limit      int64
		window     time.Duration
		asked      float64 // upper bound of Redis commands per decision
	}{
		{"leased, room for all", leasedPath, roomy, roomyWindow, 0.02},
		{"leased, limit reached", scarcePath, scarce, scarceWindow, 0.02},
		{"denied flood", deniedPath, 0, roomyWindow, 0.001}, // the one allowed request came earlier
	}
	callers := members * runtime.GOMAXPROCS(0)
	t := report.NewTable(fmt.Sprintf("One key on %d nodes, as fast as %d callers can; the limit that is reached is %s/s", members, callers, report.Figure(float64(scarce))),
		report.More.In("/s", "decisions"), report.Less.In("µs", "p50", "p99"),
		report.Less.In("% of its limit", "fullest window"), report.More.In("% of its limit", "emptiest window"), redisCosts())
	const rate, fullest, emptiest, asked = 0, 3, 4, 5 // columns
	mostPassed := 0.0                                 // in a window of any repeat
	measure = func(user string) {
		for _, l := range loads {
			b.Step("%d nodes: %s", members, l.name)
			if l.path == deniedPath {
				deny(b, nodes, user)
			}
			r := nodeLoad{nodes, callers, l.path, user, b.Cell(2 * time.Second), l.window}.run(b, server)
			lab.Check(r.windows.check(l.limit))
			t.Add(l.name, report.Ours, rate, r.PerSecond(), r.Millis(50)*1e3, r.Millis(99)*1e3)
			t.Add(l.name, report.Ours, asked, r.costs[:]...)
			if l.path == scarcePath {
				percent := func(n int64) float64 { return float64(n) / float64(l.limit) * 100 }
				t.Add(l.name, report.Ours, fullest, percent(r.windows.fullest()), percent(r.windows.emptiest()))
				mostPassed = max(mostPassed, percent(r.windows.fullest()))
			}
		}
	}
	return measure, func(s *report.Section) {
		s.Tables = append(s.Tables, t)
		for _, l := range loads {
			s.Below("hot: asked of Redis per decision, "+l.name, l.asked, t.Value(l.name, asked), "")
		}
		s.AtLeast(fmt.Sprintf("hot: decisions/s on one key, %d nodes, leased", members), 400_000, t.Value(loads[0].name, rate), "/s")
		s.AtMost(fmt.Sprintf("hot: most that passed in a window, %d nodes, leased", members), 100, mostPassed, "% of the limit")
		s.AtLeast(fmt.Sprintf("hot: least that passed in a whole window, %d nodes, leased", members), 97, t.Value(loads[1].name, emptiest), "% of the limit")
	}
}

// byNodes returns the processor time per decision, in µs, if that many nodes decide on one key with 128 callers
// altogether: of the nodes with their callers, and of Redis, for exact and for leased decisions. The nodes are engines
// of this process, each with its own connections, leases and deny cache.
func byNodes(b *lab.Bench, server lab.Redis, nodes int, cell time.Duration) (figures []float64) {
	s := hotRules(roomy)
	l := nodeLoad{callers: 128, user: fmt.Sprint(nodes, " nodes"), window: roomyWindow}
	for range nodes {
		l.nodes = append(l.nodes, openNode(b, redisstore.Options{Addresses: []string{server.Addr}}, s))
	}
	for _, l.path = range []string{exactPath, leasedPath} {
		l.duration = cell / 4
		l.run(b, server) // connects, and takes the first leases
		l.duration = cell
		before := lab.OwnCPU()
		r := l.run(b, server)
		used := lab.OwnCPU() - before
		if n := r.windows.admitted(); n != r.Decisions {
			lab.Check(fmt.Errorf("%d of %d requests were denied; the limit has room for all", r.Decisions-n, r.Decisions))
		}
		figures = append(figures, float64(used.Microseconds())/float64(r.Decisions), r.costs[2])
	}
	return figures
}

// A node is an engine with its own connections, leases and deny cache, as in internal/server.
type node struct {
	*engine.Engine
	redis *redisstore.Store
}

// openNode opens a node until the end of the scope.
func openNode(b *lab.Bench, o redisstore.Options, s *rules.Snapshot) *node {
	o.Timeout = 10 * time.Second // a busy machine slows a benchmark down and does not end it
	stores := lab.Must(storestack.Open(storestack.Options{Redis: &o, Log: slog.New(slog.DiscardHandler)}))
	b.Cleanup(stores.Close)
	<-stores.Settled
	lab.Check(stores.Problem())
	return &node{lab.Must(engine.New(engine.Options{Store: stores.Shared, Local: stores.Local, Rules: engine.Fixed(s)})), stores.Redis}
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

// A nodeResult is the result of a load on nodes, and what a decision cost Redis: tickets, calls, and µs of processor
// time.
type nodeResult struct {
	lab.LoadResult
	windows windows
	costs   [3]float64
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
	least, starts := w.fullest(), slices.Sorted(maps.Keys(w))
	for i := 1; i < len(starts)-1; i++ {
		least = min(least, w[starts[i]])
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
	for i, after := range l.usage(server) {
		r.costs[i] = (after - before[i]) / float64(r.Decisions)
	}
	for _, own := range each {
		for start, n := range own {
			r.windows[start] += n
		}
	}
	return r
}

// usage returns what Redis has done so far: tickets, calls, and µs of processor time.
func (l nodeLoad) usage(server lab.Redis) (u [3]float64) {
	for _, n := range l.nodes {
		u[0] += float64(n.redis.Stats().Tickets)
	}
	u[1], u[2] = server.Calls()["evalsha"], server.CPU()*1e6
	return u
}

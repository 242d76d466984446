package section

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
)

const (
	members = 3 // nodes that share a hot key
	hotCell = 2 * time.Second
)

// A hotBench holds the nodes, connected to one server, and the results by row and figure.
type hotBench struct {
	*lab.Bench
	scarce int64 // requests per second, a limit that several nodes reach
	server lab.Redis
	nodes  []*node
	report.Samples
}

// Hot measures the paths that keep load away from Redis, at engine.Decide, with the stores that internal/server puts
// around it: decisions by Redis, denials from a node's deny cache, and requests covered by leases. It also measures
// what one hot key on several nodes costs Redis. It has no peers: the reference is the exact decision.
func Hot(bench *lab.Bench) report.Section {
	b := &hotBench{bench, int64(bench.Size(200_000)), bench.Redis(), nil, report.Samples{}}
	s := hotRules(b.scarce)
	for range members {
		b.nodes = append(b.nodes, openNode(bench, redisstore.Options{Addresses: []string{b.server.Addr}}, s))
	}
	b.deny(b.nodes[:1], pathUser)
	for turn := range b.Repeat {
		b.alongPaths()
		b.onNodes(fmt.Sprintf("turn %d", turn)) // a new client every time, so that everything allowed under a limit is counted
	}
	section := report.Section{Name: "hot", Title: "Hot paths, at engine.Decide on Redis", Notes: []string{
		"The stores are those of a server: deny cache around leases around a breaker around Redis, and a store in memory that counts along. All calls are of one key. Callers ask again at once and share this machine's processors with Redis.",
		"Asked of Redis are decisions that Redis makes, however many travel in one call; the goals are about them.",
	}}
	b.addPaths(&section)
	b.addNodes(&section)
	return section
}

// deny makes nodes learn that a client is denied. The next request is measured.
func (b *hotBench) deny(nodes []*node, user string) {
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

// Figures.
const (
	rate     = "decisions"
	p50, p99 = "p50", "p99"
	fullest  = "fullest window" // the most and the least allowed in one window, relative to its limit
	emptiest = "emptiest window"
)

// redisCosts are the columns of what a decision costs Redis.
var redisCosts = []report.Column{
	{Name: "asked of Redis", Better: report.Less, Unit: "/decision"},
	{Name: "Redis calls", Better: report.Less, Unit: "/decision"},
	{Name: "Redis CPU", Better: report.Less, Unit: "µs/decision"},
}

// note adds the figures of a load, with a suffix of their names.
func (b *hotBench) note(row, suffix string, r nodeResult) {
	b.Add(row, rate+suffix, r.PerSecond())
	b.Add(row, p50+suffix, r.Millis(50)*1e3)
	b.Add(row, p99+suffix, r.Millis(99)*1e3)
}

func (b *hotBench) noteCosts(row string, r nodeResult) {
	for i, v := range []float64{r.asked, r.calls, r.micros} {
		b.Add(row, redisCosts[i].Name, v)
	}
}

// hotPaths are the paths by which requests are decided on one node: a row each.
var hotPaths = []struct {
	name, path string
	passes     bool
}{{"exact", exactPath, true}, {"leased", leasedPath, true}, {"cached deny", deniedPath, false}}

// hotCallers are numbers of callers: the costs are those of the most, the goal for the latency is about some.
var hotCallers = []int{2, some, most}

const (
	some     = 64
	pathUser = "along the paths" // the user of all requests along the paths
)

// by names a figure for that many callers.
func by(figure string, callers int) string { return fmt.Sprintf("%s, %d callers", figure, callers) }

func (b *hotBench) alongPaths() {
	for _, callers := range hotCallers {
		for _, p := range hotPaths {
			b.Step("%d callers: %s", callers, p.name)
			r := nodeLoad{b.nodes[:1], callers, p.path, pathUser, b.Cell(hotCell), roomyWindow}.run(b.Bench, b.server)
			if n, want := r.windows.admitted(), map[bool]int64{true: r.Decisions}[p.passes]; n != want {
				lab.Check(fmt.Errorf("%d of %d calls passed, and %d should have", n, r.Decisions, want))
			}
			b.note(p.name, by("", callers), r)
			if callers == most {
				b.noteCosts(p.name, r)
			}
		}
	}
}

func (b *hotBench) addPaths(s *report.Section) {
	var rows []report.Row
	for _, p := range hotPaths {
		rows = append(rows, report.NewRow(p.name, report.Ours))
		s.Goals = append(s.Goals, report.Below(fmt.Sprintf("hot: p99, %s, %d callers", p.name, some), 2, b.Median(p.name, by(p99, some))/1e3, " ms"))
	}
	columns := func(figure, unit string, better report.Direction) (all []report.Column) {
		for _, callers := range hotCallers {
			all = append(all, report.Column{Name: by(figure, callers), Unit: unit, Better: better, Against: hotPaths[0].name})
		}
		return all
	}
	s.Tables = append(s.Tables,
		b.Table("Decisions a second on one node, by number of callers", "", columns(rate, "/s", report.More), rows),
		b.Table("What callers wait", "", append(columns(p50, "µs", report.Less), columns(p99, "µs", report.Less)...), rows),
		b.Table(fmt.Sprintf("What a decision costs Redis, %d callers", most), "", redisCosts, rows))
}

// A keyLoad is a load on one key on several nodes: a row.
type keyLoad struct {
	name, path string
	limit      int64
	window     time.Duration
	asked      float64 // upper bound of Redis commands per decision
}

const (
	withRoom = "leased, room for all"
	reached  = "leased, limit reached"
	flooded  = "denied flood"
)

func (b *hotBench) keyLoads() []keyLoad {
	return []keyLoad{
		{withRoom, leasedPath, roomy, roomyWindow, 0.02},
		{reached, scarcePath, b.scarce, scarceWindow, 0.02},
		{flooded, deniedPath, 0, roomyWindow, 0.001}, // the one allowed request came earlier
	}
}

func (b *hotBench) onNodes(user string) {
	for _, l := range b.keyLoads() {
		b.Step("%d nodes: %s", members, l.name)
		if l.name == flooded {
			b.deny(b.nodes, user)
		}
		r := nodeLoad{b.nodes, members * runtime.GOMAXPROCS(0), l.path, user, b.Cell(hotCell), l.window}.run(b.Bench, b.server)
		lab.Check(r.windows.check(l.limit))
		b.note(l.name, "", r)
		b.noteCosts(l.name, r)
		if l.name == reached {
			b.Add(l.name, fullest, float64(r.windows.fullest())/float64(l.limit)*100)
			b.Add(l.name, emptiest, float64(r.windows.emptiest())/float64(l.limit)*100)
		}
	}
}

func (b *hotBench) addNodes(s *report.Section) {
	columns := append([]report.Column{
		{Name: rate, Unit: "/s", Better: report.More},
		{Name: p50, Unit: "µs", Better: report.Less},
		{Name: p99, Unit: "µs", Better: report.Less},
		{Name: fullest, Unit: "% of its limit", Better: report.Less},
		{Name: emptiest, Unit: "% of its limit", Better: report.More},
	}, redisCosts...)
	var rows []report.Row
	for _, l := range b.keyLoads() {
		rows = append(rows, report.NewRow(l.name, report.Ours))
		s.Goals = append(s.Goals, report.Below("hot: asked of Redis per decision, "+l.name, l.asked, b.Median(l.name, redisCosts[0].Name), ""))
	}
	s.Tables = append(s.Tables, b.Table(fmt.Sprintf("One key on %d nodes, as fast as %d callers can; the limit that is reached is %s/s",
		members, members*runtime.GOMAXPROCS(0), report.Figure(float64(b.scarce))), "", columns, rows))
	s.Goals = append(s.Goals,
		report.AtLeast(fmt.Sprintf("hot: decisions/s on one key, %d nodes, leased", members), 400_000, b.Median(withRoom, rate), "/s"),
		report.AtMost(fmt.Sprintf("hot: most that passed in a window, %d nodes, leased", members), 100, slices.Max(append([]float64{0}, b.Samples[[2]string{reached, fullest}]...)), "% of the limit"),
		report.AtLeast(fmt.Sprintf("hot: least that passed in a whole window, %d nodes, leased", members), 97, b.Median(reached, emptiest), "% of the limit"))
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
		figures = append(figures, float64(used.Microseconds())/float64(r.Decisions), r.micros)
	}
	return figures
}

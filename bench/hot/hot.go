package hot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

// Options configure how much is measured.
type Options struct {
	Cell   time.Duration // of one repeat of one figure
	Scarce int64         // requests per second, a limit that several nodes reach
	Repeat int
	Stderr *os.File // for progress
}

const members = 3 // nodes that share a hot key

// bench holds the nodes, connected to one server, and the results by row and figure.
type bench struct {
	options Options
	addr    string
	nodes   []*node
	report.Samples
	progress *report.Progress
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	s = report.Section{Name: "hot", Title: "Hot paths, at engine.Decide on Redis", Notes: notes}
	server, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	b := &bench{options: o, addr: server.Addr, Samples: report.Samples{}}
	b.progress = report.Begin(o.Stderr, "hot", o.Repeat*(len(crowds)*len(ways)+len(b.scenes())))
	defer b.progress.End()
	defer b.close()
	if err := b.open(ctx); err != nil {
		return s, err
	}
	for turn := range o.Repeat {
		if err := b.alongPaths(ctx); err != nil {
			return s, err
		}
		if err := b.onNodes(ctx, turn); err != nil {
			return s, err
		}
	}
	b.addPaths(&s)
	b.addNodes(&s)
	return s, nil
}

var notes = []string{
	"The stores are those of a server: deny cache around leases around a breaker around Redis, and a store in memory that counts along. All calls are of one key. Callers ask again at once and share this machine's processors with Redis.",
	"Asked of Redis are decisions that Redis makes, however many travel in one call; the goals are about them.",
}

func (b *bench) open(ctx context.Context) error {
	s, err := compile(b.options.Scarce)
	if err != nil {
		return err
	}
	for range members {
		n, err := openNode(redisstore.Options{Addresses: []string{b.addr}}, s)
		if err != nil {
			return err
		}
		b.nodes = append(b.nodes, n)
	}
	return b.deny(ctx, b.nodes[:1], caller)
}

// deny makes nodes learn that a client is denied. The next request is measured.
func (b *bench) deny(ctx context.Context, nodes []*node, user string) error {
	var v penstock.Verdict
	for _, n := range nodes {
		for range 2 { // the very first request is allowed
			if err := n.Decide(ctx, newCall(deniedPath, user, 1), &v); err != nil {
				return err
			}
		}
	}
	if v.Allowed {
		return fmt.Errorf("two calls of %q pass, of which one should", user)
	}
	return nil
}

func (b *bench) close() {
	for _, n := range b.nodes {
		n.close()
	}
}

// Figures.
const (
	rate     = "decisions"
	p50, p99 = "p50", "p99"
	asked    = "asked of Redis"
	calls    = "Redis calls"
	redisCPU = "Redis CPU"
)

var costs = []report.Column{
	{Name: asked, Better: report.Less, Unit: "/decision"},
	{Name: calls, Better: report.Less, Unit: "/decision"},
	{Name: redisCPU, Better: report.Less, Unit: "µs/decision"},
}

// usage is what Redis has done so far.
type usage struct {
	calls, tickets int64
	cpu            float64 // s
}

func (b *bench) usage() (u usage, err error) {
	text, err := redis.Info(b.addr, "commandstats", "cmdstat_evalsha")
	if err != nil {
		return u, err
	}
	if _, err := fmt.Sscanf(text, "calls=%d,", &u.calls); err != nil {
		return u, fmt.Errorf("read the number of calls from %.80q: %w", text, err)
	}
	for _, n := range b.nodes {
		u.tickets += n.redis.Stats().Tickets
	}
	u.cpu, err = redis.ServerCPU(b.addr)
	return u, err
}

// A cost is the work of Redis per decision.
type cost struct{ asked, calls, micros float64 }

func costOf(before, after usage, decisions int64) cost {
	n := float64(decisions)
	return cost{
		asked:  float64(after.tickets-before.tickets) / n,
		calls:  float64(after.calls-before.calls) / n,
		micros: (after.cpu - before.cpu) * 1e6 / n,
	}
}

func (b *bench) noteCost(row string, c cost) {
	b.Add(row, asked, c.asked)
	b.Add(row, calls, c.calls)
	b.Add(row, redisCPU, c.micros)
}

// run puts a load on nodes.
func (b *bench) run(ctx context.Context, l load) (loadResult, cost, error) {
	before, err := b.usage()
	if err != nil {
		return loadResult{}, cost{}, err
	}
	s, err := l.run(ctx)
	if err != nil {
		return s, cost{}, err
	}
	after, err := b.usage()
	return s, costOf(before, after, s.decisions), err
}

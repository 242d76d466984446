// Package atomicity compares the usual ways of keeping a limit in Redis under contention and shows which of them
// enforce it.
package atomicity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/redisstore"
)

const (
	nodes = 4 // independent clients, each with its own connection and delay

	// patience bounds a request. It is shorter than the window, which must not slide during a burst.
	patience = 30 * time.Second
)

var limit = limiter.Limit{Count: 10, Window: time.Minute}

// A load is how many clients are released at once, over a network with this round trip added.
type load struct {
	callers   int
	roundTrip time.Duration
}

// loads are many callers over each network, and growing numbers over one.
var loads = []load{
	{50, 0}, {100, 0}, {50, 2 * time.Millisecond}, {100, 2 * time.Millisecond},
	{2, time.Millisecond}, {5, time.Millisecond}, {10, time.Millisecond}, {20, time.Millisecond}, {50, time.Millisecond}, {100, time.Millisecond},
}

// Measure runs every way under every load.
func Measure(b *lab.Bench) report.Section {
	server := b.Redis()
	s := report.Section{
		Name: "atomicity", Title: fmt.Sprintf("What a limit of %d per minute in Redis admits, by how it is counted", limit.Count),
		Notes: []string{
			fmt.Sprintf("%d clients (nodes) connect to one server, each through a proxy that adds a round trip. Callers wait at a barrier, are released together, and each charges one call to the same key. Every trial uses a fresh key. Redis %s.", nodes, server.Info("server", "redis_version")),
			"Admitted: callers that were allowed, the median of the trials, the least and the most. Logged: members in the log afterwards; more than were admitted means that denied callers were charged too. Trips: waits for the server, one after another. Retries: further attempts. Commands: what the server executed, inside scripts too. p50 and p99: from a caller's release to its answer.",
		},
	}
	for _, w := range ways {
		s.Notes = append(s.Notes, w.name+": "+w.what+".")
	}
	for _, l := range loads {
		l.callers = b.Size(l.callers)
		t := newTable(fmt.Sprintf("%d callers at once, %v of added round trip", l.callers, l.roundTrip))
		for _, w := range ways {
			b.Step("%s, %d callers, %v", w.name, l.callers, l.roundTrip)
			b.Scope(func() { race(b, server, t, w, l) })
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

func newTable(title string) *report.Table {
	return report.NewTable(title, report.Less.In("callers", "admitted"), report.More.In("callers", "least"), report.Less.In("callers", "most"),
		report.Less.In("members", "logged"), report.Less.In("/call", "trips", "retries", "commands"),
		report.Less.In("ms", "p50", "p99"), report.Less.In("callers", "gave up"))
}

// Columns.
const admitted, least, most, logged, trips, retries, commands, p50, gaveUp = 0, 1, 2, 3, 4, 5, 6, 7, 9

// A node is one process's view of Redis.
type node struct {
	client rueidis.Client // one pipelined connection
	store  *redisstore.Store
}

func openNode(b *lab.Bench, addr string, roundTrip time.Duration) *node {
	if roundTrip > 0 {
		addr = b.Delay(addr, roundTrip)
	}
	// No retries: a charge that is sent again counts twice.
	client := lab.Must(rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, DisableRetry: true, ForceSingleClient: true, PipelineMultiplex: -1,
	}))
	b.Cleanup(client.Close)
	return &node{client, b.Store(addr)}
}

// race measures a way under a load: one burst that is not counted, because it opens connections and loads scripts, then
// the trials, each on its own key.
func race(b *lab.Bench, server lab.Redis, t *report.Table, w way, l load) {
	var all []*node
	for range nodes {
		all = append(all, openNode(b, server.Addr, l.roundTrip))
	}
	burst(b, all, w, l.callers, "penstock-race:first")
	var took []float64 // ms
	fewest, highest := l.callers, 0
	for range b.Repeat {
		key := fmt.Sprintf("penstock-race:%016x", rand.Uint64())
		before := commandsExecuted(server)
		outcomes := burst(b, all, w, l.callers, key)
		executed := commandsExecuted(server) - before
		passed, failed, waited, again := 0, 0, 0, 0
		for _, o := range outcomes {
			switch {
			case errors.Is(o.err, context.DeadlineExceeded), errors.Is(o.err, os.ErrDeadlineExceeded):
				failed++
			case o.err != nil:
				lab.Check(o.err)
			case o.allowed:
				passed++
			}
			waited, again, took = waited+o.made, again+o.retries, append(took, o.took.Seconds()*1e3)
		}
		perCall := func(n int) float64 { return float64(n) / float64(l.callers) }
		t.Add(w.name, w.role(), admitted, float64(passed))
		t.Add(w.name, w.role(), logged, server.Number("ZCARD", key), perCall(waited), perCall(again), perCall(executed))
		t.Add(w.name, w.role(), gaveUp, float64(failed))
		server.Command("UNLINK", key, "penstock-race:first")
		fewest, highest = min(fewest, passed), max(highest, passed)
	}
	t.Add(w.name, w.role(), least, float64(fewest), float64(highest))
	slices.Sort(took)
	t.Add(w.name, w.role(), p50, took[(len(took)-1)/2], took[(len(took)*99+99)/100-1])
}

type outcome struct {
	request
	allowed bool
	took    time.Duration
	err     error
}

// burst releases clients at once against one key and waits for all of them. Clients are assigned to nodes in turn.
func burst(ctx context.Context, all []*node, w way, callers int, key string) []outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcomes := make([]outcome, callers)
	var ready sync.WaitGroup
	ready.Add(callers)
	_ = lab.Parallel(callers, func(i int) error {
		o := &outcomes[i]
		o.node = all[i%len(all)]
		o.client = o.node.client
		ready.Done()
		ready.Wait() // for the others
		start := time.Now()
		o.allowed, o.err = w.take(ctx, &o.request, key)
		o.took = time.Since(start)
		return nil // every error is an outcome
	})
	return outcomes
}

// notTheirs are commands of connections and of this program, not of a way.
var notTheirs = []string{"info", "ping", "hello", "client"}

// commandsExecuted returns how many commands of ways the server has run.
func commandsExecuted(server lab.Redis) (sum int) {
	for command, calls := range server.Calls() {
		if name, _, _ := strings.Cut(command, "|"); !slices.Contains(notTheirs, name) {
			sum += int(calls)
		}
	}
	return sum
}

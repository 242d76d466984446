package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/bench/limiter"
	"github.com/penstock-io/penstock/internal/redistest"
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

// A cell is one way under one load. Every number covers all its trials.
type cell struct {
	way  string
	load load

	admitted, logged                              []int   // by trial, sorted; the log afterwards is empty if it is kept elsewhere
	tripsPerCall, retriesPerCall, commandsPerCall float64 // commands as the server counts them, also inside scripts
	gaveUp                                        int     // requests that timed out
	took                                          []time.Duration
}

// over returns how many were admitted above the limit in the worst trial.
func (c *cell) over() int { return max(0, slices.Max(c.admitted)-int(limit.Count)) }

// falselyDenied returns how many could have been admitted besides in the worst trial.
func (c *cell) falselyDenied() int {
	return max(0, min(int(limit.Count), c.load.callers)-slices.Min(c.admitted))
}

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
	store := lab.Must(redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: patience}))
	b.Cleanup(func() { store.Close() })
	return &node{client, store}
}

// race measures a way under a load: one burst that is not counted, because it opens connections and loads scripts, then
// the trials, each on its own key.
func race(b *lab.Bench, addr string, w way, l load, trials int) *cell {
	b.Step("%s, %d callers, %v", w.name, l.callers, l.roundTrip)
	c := &cell{way: w.name, load: l}
	b.Scope(func() {
		var all []*node
		for range nodes {
			all = append(all, openNode(b, addr, l.roundTrip))
		}
		direct := openNode(b, addr, 0).client
		prefix := fmt.Sprintf("penstock-race:%016x:", rand.Uint64())
		before := 0
		for trial := range trials + 1 {
			key := prefix + strconv.Itoa(trial)
			outcomes := burst(b, all, w, l.callers, key)
			logged := lab.Must(direct.Do(b, direct.B().Zcard().Key(key).Build()).AsInt64())
			lab.Check(direct.Do(b, direct.B().Unlink().Key(key).Build()).Error())
			if trial == 0 {
				before = lab.Must(commandsExecuted(addr))
				continue
			}
			lab.Check(c.add(outcomes))
			c.logged = append(c.logged, int(logged))
		}
		c.finish(lab.Must(commandsExecuted(addr)) - before - 2*trials) // without ZCARD and UNLINK of this function
	})
	return c
}

// outcome is the result for one client.
type outcome struct {
	trips
	allowed bool
	took    time.Duration
	err     error
}

// burst releases clients at once against one key and waits for all of them. Clients are assigned to nodes in turn.
func burst(ctx context.Context, all []*node, w way, callers int, key string) []outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcomes := make([]outcome, callers)
	gate := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(callers)
	for i := range outcomes {
		done.Go(func() {
			o := &outcomes[i]
			o.node = all[i%len(all)]
			o.client = o.node.client
			ready.Done()
			<-gate
			start := time.Now()
			o.allowed, o.err = w.take(ctx, &o.trips, key)
			o.took = time.Since(start)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
	return outcomes
}

// add adds one trial. The error is the first that is not a timeout of a client.
func (c *cell) add(outcomes []outcome) error {
	admitted := 0
	for _, o := range outcomes {
		switch {
		case errors.Is(o.err, context.DeadlineExceeded), errors.Is(o.err, os.ErrDeadlineExceeded):
			c.gaveUp++
		case o.err != nil:
			return o.err
		case o.allowed:
			admitted++
		}
		c.tripsPerCall += float64(o.made)
		c.retriesPerCall += float64(o.retries)
		c.took = append(c.took, o.took)
	}
	c.admitted = append(c.admitted, admitted)
	return nil
}

func (c *cell) finish(commands int) {
	calls := float64(len(c.took))
	c.tripsPerCall /= calls
	c.retriesPerCall /= calls
	c.commandsPerCall = float64(commands) / calls
	slices.Sort(c.admitted)
	slices.Sort(c.logged)
	slices.Sort(c.took)
}

// notTheirs are commands of connections and of this program, not of a way.
var notTheirs = []string{"info", "ping", "hello", "client"}

// commandsExecuted returns how many commands the server has run, including those inside scripts and transactions.
func commandsExecuted(addr string) (sum int, err error) {
	text, err := redistest.Command(addr, "INFO", "commandstats")
	for line := range strings.Lines(text) {
		command, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		command, _, _ = strings.Cut(command, "|")
		if !ok || slices.Contains(notTheirs, command) {
			continue
		}
		calls, _, _ := strings.Cut(stats, ",")
		n, err := strconv.Atoi(calls)
		if err != nil {
			return 0, fmt.Errorf("read calls of %q from %q: %w", command, stats, err)
		}
		sum += n
	}
	return sum, err
}

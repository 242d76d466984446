package race

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

	"github.com/penstock-io/penstock/bench/network"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/redisstore"
)

const (
	nodes = 4 // independent clients, each with its own connection and delay

	// patience bounds a request. It is shorter than the window, which must not slide during a burst.
	patience = 30 * time.Second
)

var limit = Limit{Calls: 10, Window: time.Minute}

// A Load is how many clients are released at once, over a network with this round trip added.
type Load struct {
	Callers   int
	RoundTrip time.Duration
}

// A Cell is one way under one load. Every number covers all its trials.
type Cell struct {
	Way  string
	Load Load

	Admitted, Logged                              []int   // by trial, sorted; the log afterwards is empty if it is kept elsewhere
	TripsPerCall, RetriesPerCall, CommandsPerCall float64 // commands as the server counts them, also inside scripts
	GaveUp                                        int     // requests that timed out
	P50, P99                                      time.Duration
}

// Over returns how many were admitted above the limit in the worst trial.
func (c *Cell) Over() int { return max(0, slices.Max(c.Admitted)-limit.Calls) }

// FalselyDenied returns how many could have been admitted besides in the worst trial.
func (c *Cell) FalselyDenied() int {
	return max(0, min(limit.Calls, c.Load.Callers)-slices.Min(c.Admitted))
}

// A node is one process's view of Redis.
type node struct {
	client rueidis.Client // one pipelined connection
	store  *redisstore.Store
	proxy  *network.DelayProxy // nil without an added delay
}

func openNode(addr string, roundTrip time.Duration) (n *node, err error) {
	n = &node{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if roundTrip > 0 {
		if n.proxy, err = network.NewDelayProxy(addr, roundTrip); err != nil {
			return n, err
		}
		addr = n.proxy.Addr()
	}
	// No retries: a charge that is sent again counts twice.
	if n.client, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, DisableRetry: true, ForceSingleClient: true, PipelineMultiplex: -1,
	}); err != nil {
		return n, fmt.Errorf("connect to Redis at %s: %w", addr, err)
	}
	n.store, err = redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: patience})
	return n, err
}

func (n *node) close() {
	if n.store != nil {
		n.store.Close()
	}
	if n.client != nil {
		n.client.Close()
	}
	if n.proxy != nil {
		n.proxy.Close()
	}
}

// Run measures a way under a load: one burst that is not counted, because it opens connections and loads scripts, then
// the trials, each on its own key.
func Run(ctx context.Context, addr string, w Way, l Load, trials int) (*Cell, error) {
	var all []*node
	defer func() {
		for _, n := range all {
			n.close()
		}
	}()
	for range nodes {
		n, err := openNode(addr, l.RoundTrip)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	direct, err := openNode(addr, 0)
	if err != nil {
		return nil, err
	}
	defer direct.close()
	prefix := fmt.Sprintf("penstock-race:%016x:", rand.Uint64())
	c := &Cell{Way: w.Name, Load: l}
	var took []time.Duration
	before := 0
	for trial := range trials + 1 {
		key := prefix + strconv.Itoa(trial)
		outcomes := burst(ctx, all, w, l.Callers, key)
		logged, err := direct.client.Do(ctx, direct.client.B().Zcard().Key(key).Build()).AsInt64()
		if err := errors.Join(err, direct.client.Do(ctx, direct.client.B().Unlink().Key(key).Build()).Error()); err != nil {
			return nil, err
		}
		if trial == 0 {
			if before, err = commandsExecuted(addr); err != nil {
				return nil, err
			}
			continue
		}
		if err := c.add(outcomes); err != nil {
			return nil, fmt.Errorf("%s, trial %d: %w", w.Name, trial, err)
		}
		c.Logged = append(c.Logged, int(logged))
		for _, o := range outcomes {
			took = append(took, o.took)
		}
	}
	after, err := commandsExecuted(addr)
	if err != nil {
		return nil, err
	}
	c.finish(took, after-before-2*trials) // without ZCARD and UNLINK of this function
	return c, nil
}

// outcome is the result for one client.
type outcome struct {
	trips
	allowed bool
	took    time.Duration
	err     error
}

// burst releases clients at once against one key and waits for all of them. Clients are assigned to nodes in turn.
func burst(ctx context.Context, all []*node, w Way, callers int, key string) []outcome {
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
			o.allowed, o.err = w.take(ctx, &o.trips, key, limit)
			o.took = time.Since(start)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
	return outcomes
}

// add adds one trial. The error is the first that is not a timeout of a client.
func (c *Cell) add(outcomes []outcome) error {
	admitted := 0
	for _, o := range outcomes {
		switch {
		case errors.Is(o.err, context.DeadlineExceeded), errors.Is(o.err, os.ErrDeadlineExceeded):
			c.GaveUp++
		case o.err != nil:
			return o.err
		case o.allowed:
			admitted++
		}
		c.TripsPerCall += float64(o.made)
		c.RetriesPerCall += float64(o.retries)
	}
	c.Admitted = append(c.Admitted, admitted)
	return nil
}

func (c *Cell) finish(took []time.Duration, commands int) {
	calls := float64(len(took))
	c.TripsPerCall /= calls
	c.RetriesPerCall /= calls
	c.CommandsPerCall = float64(commands) / calls
	slices.Sort(c.Admitted)
	slices.Sort(c.Logged)
	slices.Sort(took)
	c.P50, c.P99 = took[(len(took)-1)/2], took[(len(took)*99+99)/100-1]
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

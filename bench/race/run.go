package race

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// ContentionRoundTrip is the network delay of the contention plots.
const ContentionRoundTrip = time.Millisecond

// Options configure a campaign. Every field except Contention and Progress is required.
type Options struct {
	Addr       string          // the Redis server
	Nodes      int             // independent clients
	Trials     int             // per cell, after one that is not counted
	Callers    []int           // released at once
	RoundTrips []time.Duration // added by the proxies
	Contention []int           // further numbers of clients at ContentionRoundTrip, for the plots
	Limit      Limit
	Patience   time.Duration // timeout of a request

	Ways     []Method // Ways() and any others
	Progress func(what string)
}

func (o Options) check() error {
	var errs []error
	positive := func(name string, n int) {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s must be at least 1, got %d", name, n))
		}
	}
	positive("nodes", o.Nodes)
	positive("trials", o.Trials)
	positive("limit", o.Limit.Calls)
	for _, n := range slices.Concat(o.Callers, o.Contention) {
		positive("callers", n)
	}
	for _, d := range o.RoundTrips {
		if d < 0 {
			errs = append(errs, fmt.Errorf("round trip must not be negative, got %v", d))
		}
	}
	if o.Patience <= 0 {
		errs = append(errs, fmt.Errorf("patience must be positive, got %v", o.Patience))
	}
	if o.Limit.Window <= o.Patience {
		errs = append(errs, fmt.Errorf("window must be longer than a call may take (%v), or it slides during a burst, got %v", o.Patience, o.Limit.Window))
	}
	if len(o.Ways) == 0 {
		errs = append(errs, errors.New("no way to run"))
	}
	return errors.Join(errs...)
}

// load is the numbers of clients to run over one network, in order.
type load struct {
	roundTrip time.Duration
	callers   []int
}

func (o Options) loads() []load {
	var loads []load
	for _, d := range o.RoundTrips {
		loads = append(loads, load{d, slices.Clone(o.Callers)})
	}
	if len(o.Contention) > 0 {
		i := slices.IndexFunc(loads, func(l load) bool { return l.roundTrip == ContentionRoundTrip })
		if i < 0 {
			loads = append(loads, load{roundTrip: ContentionRoundTrip})
			i = len(loads) - 1
		}
		loads[i].callers = append(loads[i].callers, o.Contention...)
	}
	for i := range loads {
		slices.Sort(loads[i].callers)
		loads[i].callers = slices.Compact(loads[i].callers)
	}
	return loads
}

// cells returns how many there are to run.
func (o Options) cells() (n int) {
	for _, l := range o.loads() {
		n += len(l.callers) * len(o.Ways)
	}
	return n
}

// Run measures every way under every load.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	observer, err := dial(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis at %s: %w", o.Addr, err)
	}
	defer observer.Close()
	c := &campaign{Options: o, server: observer, prefix: fmt.Sprintf("penstock-race:%016x", rand.Uint64())}
	c.report = &Report{Limit: o.Limit.Calls, WindowMS: o.Limit.Window.Milliseconds(), Nodes: o.Nodes, Trials: o.Trials}
	if c.report.Server, err = serverVersion(ctx, observer); err != nil {
		return nil, err
	}
	for _, l := range o.loads() {
		if err := c.runLoad(ctx, l); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}

type campaign struct {
	Options
	server rueidis.Client // reads counters outside of the race, never through a proxy
	prefix string         // of every key, so that a shared server is left clean
	keys   int
	report *Report
}

func (c *campaign) runLoad(ctx context.Context, l load) (err error) {
	net, err := openNetwork(c.Addr, c.Nodes, l.roundTrip)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.close()) }()
	measured, err := net.measure(ctx)
	if err != nil {
		return err
	}
	c.report.Networks = append(c.report.Networks, Network{AddedUS: l.roundTrip.Microseconds(), MeasuredUS: measured.Microseconds()})
	for _, way := range c.Ways {
		if err := c.runWay(ctx, net, way, l.callers); err != nil {
			return fmt.Errorf("%s over %v: %w", way.Name, l.roundTrip, err)
		}
	}
	return nil
}

func (c *campaign) runWay(ctx context.Context, net *network, way Method, callers []int) error {
	var deciders []Decider
	defer func() {
		for _, d := range deciders {
			d.Close()
		}
	}()
	for _, node := range net.nodes {
		d, err := way.Open(ctx, node, c.Limit)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		deciders = append(deciders, d)
	}
	for _, n := range callers {
		if c.Progress != nil {
			c.Progress(fmt.Sprintf("%s, %d callers, %v", way.Name, n, net.roundTrip))
		}
		cell, err := c.runCell(ctx, deciders, way.Name, n, net.roundTrip)
		if err != nil {
			return fmt.Errorf("%d callers: %w", n, err)
		}
		c.report.Cells = append(c.report.Cells, cell)
	}
	return nil
}

// runCell runs one burst that is not counted (it opens connections and loads scripts), then the trials, each on
// its own key.
func (c *campaign) runCell(ctx context.Context, deciders []Decider, way string, callers int, added time.Duration) (Cell, error) {
	t := &tally{limit: c.Limit.Calls, callers: callers}
	keys := make([]string, c.Trials+1)
	for i := range keys {
		c.keys++
		keys[i] = fmt.Sprintf("%s:%d", c.prefix, c.keys)
	}
	defer forget(context.WithoutCancel(ctx), c.server, keys)
	if err := new(tally).add(burst(ctx, deciders, callers, keys[c.Trials], c.Patience)); err != nil {
		return Cell{}, fmt.Errorf("warm up: %w", err)
	}
	before, err := commandsExecuted(ctx, c.server)
	if err != nil {
		return Cell{}, err
	}
	for i := range c.Trials {
		if err := t.add(burst(ctx, deciders, callers, keys[i], c.Patience)); err != nil {
			return Cell{}, fmt.Errorf("trial %d: %w", i+1, err)
		}
	}
	after, err := commandsExecuted(ctx, c.server)
	if err != nil {
		return Cell{}, err
	}
	for _, key := range keys[:c.Trials] {
		n, err := logged(ctx, c.server, key)
		if err != nil {
			return Cell{}, err
		}
		t.logged = append(t.logged, n)
	}
	return t.cell(way, added, after-before), nil
}

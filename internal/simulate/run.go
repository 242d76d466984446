package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A Store holds the counters of a simulation.
type Store interface {
	storage.FullStore
	io.Closer
	Expire(now penstock.Instant)
	Size(ctx context.Context) (int64, error)
}

// A LimitShape is the numbers that the limits of a simulation have. Each algorithm takes those that it has.
type LimitShape struct {
	Count        int64
	Window       time.Duration
	Burst, Queue int64
	CountDenied  bool
}

// Limit returns the limit of an algorithm.
func (s *LimitShape) Limit(a penstock.Algorithm) penstock.Limit {
	l := penstock.Limit{Algorithm: a, Count: s.Count, Window: s.Window}
	switch a {
	case penstock.TokenBucket:
		l.Burst = s.Burst
	case penstock.LeakyBucket:
		l.Queue = s.Queue
	default:
		l.CountDenied = s.CountDenied
	}
	return l
}

// Sharing says how several nodes count.
type Sharing string

const (
	Shared Sharing = "shared" // in one store
	Leased Sharing = "leased" // in one store, with leases for hot keys
	Apart  Sharing = "apart"  // each in its own store
)

// An Outage is a period in which nodes cannot reach the store.
type Outage struct {
	From   time.Duration `json:"from_ns"` // after the start
	For    time.Duration `json:"for_ns"`  // 0: there is none
	Policy string        `json:"policy"`  // on_store_error of the rule
}

// A Simulation sends traffic through limits.
type Simulation struct {
	Traffic  Traffic
	Requests int64         // requests that are counted
	Skip     time.Duration // initial period that is not counted
	Limits   []penstock.Limit
	Nodes    int
	Sharing  Sharing
	Outage   Outage
	NewStore func() (Store, error)
	Bytes    func(Store) int64    // returns the size of a store; may be nil
	Progress func(requests int64) // may be nil
	Pools    int                  // keys with leases on each node; 0: [lease.DefaultPools]
}

// Stores returns how many stores are open at the same time.
func (s *Simulation) Stores() int {
	n := 1
	if s.Sharing == Apart {
		n = s.Nodes
	}
	if s.Outage.For > 0 {
		n += s.Nodes // each has one to fall back to
	}
	return n
}

// A Result is the effect of one limit on the traffic.
type Result struct {
	Limit     string        `json:"limit"`
	Algorithm string        `json:"algorithm"`
	CountAll  bool          `json:"counts_denied"`
	Requests  int64         `json:"requests"`
	Admitted  int64         `json:"admitted"`
	Denied    int64         `json:"denied"`
	Delayed   int64         `json:"delayed,omitempty"`
	Overshoot int64         `json:"largest_overshoot"` // requests allowed above the limit in some trailing window
	Keys      int64         `json:"counters"`
	Bytes     int64         `json:"store_bytes"`
	Span      time.Duration `json:"span_ns"`
	Accuracy
}

// maxNodes bounds how many nodes are simulated.
const maxNodes = 64

// Validate reports every error.
func (s *Simulation) Validate() error {
	errs := []error{s.Traffic.Validate()}
	if s.Requests < 1 || s.Requests > 1e12 {
		errs = append(errs, fmt.Errorf("%d requests; there can be from 1 to 1e12", s.Requests))
	}
	if s.Nodes < 1 || s.Nodes > maxNodes {
		errs = append(errs, fmt.Errorf("%d nodes; there can be from 1 to %d", s.Nodes, maxNodes))
	}
	for _, l := range s.Limits {
		err := l.Validate()
		if err == nil && (l.Algorithm == penstock.Concurrency || l.Window == 0) {
			err = fmt.Errorf("limit %v: only limits over a window are simulated", l)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Run sends the same traffic through each of the limits.
func (s *Simulation) Run(ctx context.Context) ([]Result, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	results := make([]Result, len(s.Limits))
	for i := range s.Limits {
		l := &limitRun{Simulation: s, limit: s.Limits[i], result: &results[i], done: int64(i) * s.Requests}
		err := l.open()
		if err == nil {
			err = l.run(ctx)
		}
		l.close()
		if err != nil {
			return nil, fmt.Errorf("simulate %v: %w", s.Limits[i], err)
		}
	}
	return results, nil
}

// A limitRun is one limit in progress.
type limitRun struct {
	*Simulation
	limit  penstock.Limit
	result *Result
	done   int64 // requests of earlier lanes

	clock  atomic.Int64 // engines also read it while they send late charges
	stores []Store
	nodes  []*engine.Engine

	names    []string
	admitted []trailingWindow
	all      []trailingWindow
}

// now is the instant of the request that is decided.
func (l *limitRun) now() penstock.Instant { return penstock.Instant(l.clock.Load()) }

func (l *limitRun) close() {
	for _, s := range l.stores {
		s.Close()
	}
}

func (l *limitRun) newStore() (Store, error) {
	store, err := l.NewStore()
	if err == nil {
		l.stores = append(l.stores, store)
	}
	return store, err
}

func (l *limitRun) open() error {
	snapshot, err := l.compile()
	if err != nil {
		return err
	}
	shared, err := l.newStore()
	if err != nil {
		return err
	}
	for i := range l.Nodes {
		var store penstock.Store = shared
		switch {
		case l.Sharing == Apart && i > 0:
			if store, err = l.newStore(); err != nil {
				return err
			}
		case l.Sharing == Leased:
			if store, err = lease.New(shared, lease.Options{Pools: l.Pools}); err != nil {
				return err
			}
		}
		o := engine.Options{Store: store, Rules: engine.Fixed(snapshot), Now: l.now, Nodes: func() int { return l.Nodes }}
		if l.Outage.For > 0 {
			local, err := l.newStore()
			if err != nil {
				return err
			}
			o.Local = local
			o.Store = &failingStore{Store: store, lane: l}
		}
		e, err := engine.New(o)
		if err != nil {
			return err
		}
		l.nodes = append(l.nodes, e)
	}
	l.names = make([]string, l.Traffic.keys())
	for i := range l.names {
		l.names[i] = "k" + strconv.Itoa(i)
	}
	l.admitted, l.all = make([]trailingWindow, len(l.names)), make([]trailingWindow, len(l.names))
	return nil
}

// compile returns a document with the limit as its only rule.
func (l *limitRun) compile() (*rules.Snapshot, error) {
	limit := map[string]any{"rate": rules.Rate{Count: l.limit.Count, Window: l.limit.Window}.String(), "algorithm": l.limit.Algorithm.String()}
	if l.limit.Burst > 0 {
		limit["burst"] = l.limit.Burst
	}
	if l.limit.Queue > 0 {
		limit["queue"] = l.limit.Queue
	}
	rule := map[string]any{"name": "limit", "key": []string{"key"}, "limits": []any{limit}}
	if l.limit.CountDenied {
		rule["count_denied"] = true
	}
	if l.Sharing == Leased {
		rule["consistency"] = "leased"
	}
	if l.Outage.For > 0 {
		rule["on_store_error"] = l.Outage.Policy
	}
	text, err := json.Marshal(map[string]any{"rules": []any{rule}})
	if err != nil {
		return nil, err
	}
	snapshot, _, err := rules.CompileFiles([]rules.File{{Name: "simulation", Data: text}}, rules.Options{Provided: []string{"key"}})
	return snapshot, err
}

// A failingStore is unreachable during an outage.
type failingStore struct {
	penstock.Store
	lane *limitRun
}

func (f *failingStore) isDown() bool {
	since := time.Duration(f.lane.now()-penstock.InstantOf(start)) * time.Microsecond
	return since >= f.lane.Outage.From && since < f.lane.Outage.From+f.lane.Outage.For
}

func (f *failingStore) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	if f.isDown() {
		return storage.ErrNotTaken
	}
	return f.Store.Take(ctx, t, out)
}

// ChargeLate lets nodes report to the store what they allowed without it.
func (f *failingStore) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	late, ok := f.Store.(storage.LateCharger)
	if f.isDown() || !ok {
		return penstock.ErrUnavailable
	}
	return late.ChargeLate(ctx, c)
}

// expireEvery is the number of requests between two checks of the stores.
const expireEvery = 1 << 16

func (l *limitRun) run(ctx context.Context) error {
	r := l.result
	r.Limit, r.Algorithm, r.CountAll = l.limit.String(), l.limit.Algorithm.String(), l.limit.CountDenied
	stream := l.Traffic.stream()
	node := rand.New(rand.NewPCG(l.Traffic.Seed, 1))
	begin := penstock.InstantOf(start)
	call := penstock.Call{Cost: 1, MaxDelay: penstock.AnyDelay, Attributes: []penstock.Attribute{{Name: "key"}}}
	var v penstock.Verdict
	for n := int64(1); r.Requests < l.Requests; n++ {
		q := stream.next()
		l.clock.Store(int64(begin) + q.at)
		call.Attributes[0].Value = l.names[q.key]
		v.Reset()
		e := l.nodes[0]
		if l.Nodes > 1 {
			e = l.nodes[node.IntN(l.Nodes)]
		}
		if err := e.Decide(ctx, &call, &v); err != nil && (l.Outage.For == 0 || !errors.Is(err, penstock.ErrUnavailable)) {
			return err
		}
		if !v.Allowed {
			stream.denied(q)
		}
		l.compare(&q, &v)
		if n%expireEvery == 0 {
			if err := l.tidy(ctx); err != nil {
				return err
			}
		}
	}
	for _, s := range l.stores {
		keys, err := s.Size(ctx)
		if err != nil {
			return err
		}
		r.Keys += keys
		if l.Bytes != nil {
			r.Bytes += l.Bytes(s)
		}
	}
	return nil
}

// compare counts a decision, and whether it agrees with the exact count.
func (l *limitRun) compare(q *request, v *penstock.Verdict) {
	window := l.limit.Window.Microseconds()
	admitted, all := &l.admitted[q.key], &l.all[q.key]
	exact := admitted.count(q.at, window)
	if l.limit.CountDenied {
		exact = all.count(q.at, window)
		all.add(q.at)
	}
	if v.Allowed {
		admitted.add(q.at + v.Delay.Microseconds())
	}
	if time.Duration(q.at)*time.Microsecond < l.Skip {
		return
	}
	r := l.result
	r.Requests++
	r.Span = time.Duration(q.at) * time.Microsecond
	estimate := v.Decision.Used
	if v.Allowed || l.limit.CountDenied {
		estimate-- // without this request
	}
	if v.Allowed {
		r.Admitted++
		inWindow := admitted.count(q.at+v.Delay.Microseconds(), window)
		r.Overshoot = max(r.Overshoot, inWindow-l.limit.Count)
	} else {
		r.Denied++
	}
	if v.Delay > 0 {
		r.Delayed++
	}
	r.add(v.Allowed, estimate, exact, l.limit.Count)
}

// tidy removes expired counters.
func (l *limitRun) tidy(ctx context.Context) error {
	if l.Progress != nil {
		l.Progress(l.done + l.result.Requests)
	}
	for _, s := range l.stores {
		s.Expire(l.now())
	}
	return ctx.Err()
}

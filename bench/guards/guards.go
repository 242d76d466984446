// Package guards measures the features around a charge: how many bytes a store keeps for a request with a
// penalty, an id, a reservation or a permit, and what these cost a decision. The bytes are what a client can make
// a store keep.
package guards

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/bench/redis"
	"github.com/penstock-io/penstock/bench/report"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
	"github.com/penstock-io/penstock/storage"
)

// Options configure how much is measured.
type Options struct {
	Keys   int           // subjects that are weighed, and over which decisions are spread
	Cell   time.Duration // of decisions
	Repeat int
	Stderr *os.File // for progress
}

// A rule is a kind of request.
type rule struct {
	name  string
	calls int // for each subject
	group func() storage.Group
}

// plain is the reference for the others: one limit, no guards.
const plain = "one limit"

func rules() []rule {
	limit := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1_000_000_000, Window: time.Minute}.MustCompile()
	tight := penstock.Limit{Algorithm: penstock.TokenBucket, Count: 1, Window: time.Hour}.MustCompile()
	leases := penstock.Limit{Algorithm: penstock.Concurrency, Count: algorithm.MaxLog, Window: time.Hour}.MustCompile()
	penalty := must(algorithm.PenaltyTerms{After: 2, Within: time.Hour, Bans: []time.Duration{time.Hour}, ForgiveAfter: 24 * time.Hour}.Compile())
	dedup := must(algorithm.DedupTerms{TTL: time.Hour, MaxReplays: 1, Budget: 1000, Beside: penstock.Limit{Algorithm: penstock.FixedWindow, Window: time.Hour}}.Compile())
	of := func(meters ...*algorithm.Meter) (g storage.Group) {
		for _, m := range meters {
			g.Charges = append(g.Charges, algorithm.Charge{Meter: m, Cost: 1})
		}
		return g
	}
	many := make([]*algorithm.Meter, storage.MaxCharges)
	for i := range many {
		l := limit.Limit()
		l.Ordinal = uint8(i)
		many[i] = l.MustCompile()
	}
	return []rule{
		{plain, 1, func() storage.Group { return of(limit) }},
		{"with a penalty, no strikes", 1, func() storage.Group { g := of(limit); g.Penalty = penalty; return g }},
		{"with a strike", 2, func() storage.Group { g := of(tight); g.Penalty = penalty; return g }},
		{"banned", 3, func() storage.Group { g := of(tight); g.Penalty = penalty; return g }},
		{"with an id", 1, func() storage.Group { g := of(limit); g.Dedup = dedup; return g }},
		{"reserved", 1, func() storage.Group { g := of(limit); g.Reserve = time.Hour; return g }},
		{"a lease", 1, func() storage.Group { return of(leases) }},
		{"penalty, id and reserved", 1, func() storage.Group {
			g := of(limit)
			g.Penalty, g.Dedup, g.Reserve = penalty, dedup, time.Hour
			return g
		}},
		{"16 limits", 1, func() storage.Group { return of(many...) }},
		{"16 limits, reserved", 1, func() storage.Group { g := of(many...); g.Reserve = time.Hour; return g }},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // written above
	}
	return v
}

// Measure runs the benchmark.
func Measure(ctx context.Context, o Options) (s report.Section, err error) {
	all := rules()
	progress := report.Begin(o.Stderr, "guards", len(all)*(2+2*o.Repeat))
	defer progress.End()
	s = report.Section{Name: "guards", Title: "What stands around a charge"}
	server, err := redistest.Launch(ctx)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	bytes := report.Table{
		Title: fmt.Sprintf("Bytes that a subject takes after its first call, of %s subjects", report.Figure(float64(o.Keys))),
		Columns: []report.Column{
			{Name: "memory", Unit: "B", Better: report.Less, Against: plain},
			{Name: "Redis", Unit: "B", Better: report.Less, Against: plain},
		},
	}
	for _, r := range all {
		progress.Step("weigh %s", r.name)
		inMemory, err := weighMemory(ctx, r, o.Keys)
		if err != nil {
			return s, fmt.Errorf("weigh %s in memory: %w", r.name, err)
		}
		progress.Step("weigh %s", r.name)
		inRedis, err := weighRedis(ctx, server.Addr, r, o.Keys)
		if err != nil {
			return s, fmt.Errorf("weigh %s in Redis: %w", r.name, err)
		}
		bytes.Rows = append(bytes.Rows, report.Row{Name: r.name, Role: report.Ours, Values: []float64{inMemory, inRedis}})
	}
	speed, err := speeds(ctx, server.Addr, all, o, progress)
	if err != nil {
		return s, err
	}
	s.Tables = []report.Table{bytes, speed}
	return s, nil
}

func weighMemory(ctx context.Context, r rule, keys int) (float64, error) {
	store, err := memstore.New(memstore.Options{MaxBytes: max(16<<20, int64(keys)*2048)})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	before := store.Stats().Bytes
	if err := fill(ctx, store, r, keys); err != nil {
		return 0, err
	}
	return float64(store.Stats().Bytes-before) / float64(keys), nil
}

func weighRedis(ctx context.Context, addr string, r rule, keys int) (float64, error) {
	if err := fillRedis(ctx, addr, r, 1); err != nil { // a script stays in the server after its first run
		return 0, err
	}
	if _, err := redistest.Command(addr, "FLUSHALL", "SYNC"); err != nil {
		return 0, err
	}
	before, err := redis.IdleMemory(ctx, addr)
	if err != nil {
		return 0, err
	}
	if err := fillRedis(ctx, addr, r, keys); err != nil {
		return 0, err
	}
	after, err := redis.IdleMemory(ctx, addr)
	return (after - before) / float64(keys), err
}

func fillRedis(ctx context.Context, addr string, r rule, keys int) error {
	store, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer store.Close()
	return fill(ctx, store, r, keys)
}

// fill sends the rule's requests for that many keys, from 64 goroutines.
func fill(ctx context.Context, store penstock.Store, r rule, keys int) error {
	const callers = 64
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			call := newCaller(r, c)
			for i := c; i < keys; i += callers {
				for range r.calls {
					if err := call.take(ctx, store, uint64(i)); err != nil {
						mu.Lock()
						failed = err
						mu.Unlock()
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return failed
}

// A caller sends requests that are all different: another id, another nonce.
type caller struct {
	ticket storage.Ticket
	out    storage.Outcome
	number uint64
}

func newCaller(r rule, i int) *caller {
	c := &caller{number: uint64(i+1) << 40}
	c.ticket.Groups = []storage.Group{r.group()}
	return c
}

func (c *caller) take(ctx context.Context, store penstock.Store, key uint64) error {
	c.number++
	g := &c.ticket.Groups[0]
	c.ticket.Nonce = c.number
	binary.LittleEndian.PutUint64(g.Subject[4:], key*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint32(g.Subject[12:], uint32(key))
	binary.LittleEndian.PutUint64(g.Call[:], c.number*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(g.Call[8:], c.number)
	return store.Take(ctx, &c.ticket, &c.out)
}

// speeds measures the decisions per second of each rule, in turn.
func speeds(ctx context.Context, addr string, all []rule, o Options, progress *report.Progress) (report.Table, error) {
	t := report.Table{
		Title: "Decisions a second: one caller in memory, 64 callers on Redis",
		Columns: []report.Column{
			{Name: "memory", Unit: "/s", Better: report.More, Against: plain},
			{Name: "Redis", Unit: "/s", Better: report.More, Against: plain},
		},
	}
	inMemory, inRedis := make([][]float64, len(all)), make([][]float64, len(all))
	for range o.Repeat {
		for i, r := range all {
			progress.Step("%s in memory", r.name)
			store, err := memstore.New(memstore.Options{})
			if err != nil {
				return t, err
			}
			n, err := rate(ctx, store, r, 1, o)
			store.Close()
			if err != nil {
				return t, fmt.Errorf("%s in memory: %w", r.name, err)
			}
			inMemory[i] = append(inMemory[i], n)
			progress.Step("%s in Redis", r.name)
			if _, err := redistest.Command(addr, "FLUSHALL", "SYNC"); err != nil {
				return t, err
			}
			shared, err := redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: 30 * time.Second})
			if err != nil {
				return t, err
			}
			n, err = rate(ctx, shared, r, 64, o)
			shared.Close()
			if err != nil {
				return t, fmt.Errorf("%s in Redis: %w", r.name, err)
			}
			inRedis[i] = append(inRedis[i], n)
		}
	}
	for i, r := range all {
		t.Rows = append(t.Rows, report.Row{Name: r.name, Role: report.Ours, Values: []float64{report.Median(inMemory[i]), report.Median(inRedis[i])}})
	}
	return t, nil
}

func rate(ctx context.Context, store penstock.Store, r rule, callers int, o Options) (float64, error) {
	var mu sync.Mutex
	var total int64
	var failed error
	var wg sync.WaitGroup
	start := time.Now()
	end := start.Add(o.Cell)
	for c := range callers {
		wg.Go(func() {
			call, n := newCaller(r, c), int64(0)
			var err error
			for key := uint64(c); err == nil && time.Now().Before(end); key += uint64(callers) {
				err = call.take(ctx, store, key%uint64(o.Keys))
				n++
			}
			mu.Lock()
			total, failed = total+n, errors.Join(failed, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(total) / time.Since(start).Seconds(), failed
}

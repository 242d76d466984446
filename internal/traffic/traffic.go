package traffic

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/internal/poll"
	"github.com/penstock-io/penstock/rules"
)

// beat is how often the shards are collected.
const beat = 250 * time.Millisecond

// maxShards bounds the memory of nodes with very many processors.
const maxShards = 64

// A Traffic remembers requests. Its Observe is for engine.Options.
type Traffic struct {
	shards []shard
	tails  atomic.Pointer[[]*Tail] // open tails; replaced as a whole
	busy   atomic.Bool

	generous int // of each shard

	mu      sync.Mutex // locked after a shard's
	history history

	following sync.Mutex // held to change tails
	stop      context.CancelFunc
	ended     sync.WaitGroup
}

// New returns an empty Traffic. Close it to end its goroutine.
func New() *Traffic {
	t := &Traffic{shards: make([]shard, min(8*runtime.GOMAXPROCS(0), maxShards))}
	t.generous = max(leastGenerous, generous/len(t.shards))
	now := time.Now()
	t.history = history{began: now, now: now, rules: map[string]*ruleHistory{}}
	t.tails.Store(new([]*Tail))
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.ended.Go(func() { t.run(ctx) })
	return t
}

// Close ends the goroutine, and every tail.
func (t *Traffic) Close() {
	t.stop()
	t.ended.Wait()
	for _, tail := range *t.tails.Load() {
		tail.Close()
	}
}

func (t *Traffic) run(ctx context.Context) {
	before := int64(0)
	poll.Every(ctx, beat, nil, func() {
		t.collect(time.Now())
		calls := t.calls()
		t.busy.Store(calls-before > many)
		before = calls
	})
}

// Observe counts a decided request, and may keep it.
func (t *Traffic) Observe(o *engine.Observation) {
	tails := *t.tails.Load()
	wanted := len(tails) > 0 && anyWants(tails, o)
	s := &t.shards[rand.IntN(len(t.shards))]
	s.mu.Lock()
	if len(s.callers) >= maxCallers {
		t.put(s)
	}
	t.follow(s, o.Rules)
	s.count(o)
	if weight := s.budgets[kindOf(o)].spend(t.generous); weight > 0 || wanted && s.forced() {
		s.kept = append(s.kept, keep(o, weight))
	}
	s.mu.Unlock()
}

// RuleFailed counts that a rule of a snapshot could not be evaluated for a response.
func (t *Traffic) RuleFailed(of *rules.Snapshot, r *rules.Rule) {
	s := &t.shards[rand.IntN(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	t.follow(s, of)
	s.tally(r).counts.Failures++
}

// Took records how long a decision took.
func (t *Traffic) Took(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	h.times[coarseSlot(h.now)%coarses].decisions.record(d)
}

// StoreTook records how long an operation of the store took, and whether it failed.
func (t *Traffic) StoreTook(d time.Duration, failed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := &t.history
	h.times[coarseSlot(h.now)%coarses].store.record(d)
	h.store[fineSlot(h.now)%fines].Add(StoreCounts{Operations: 1, Failed: int64(index(failed))})
}

// Busy reports whether the request rate is high enough to time only a sample.
func (t *Traffic) Busy() bool { return t.busy.Load() }

// many requests in a beat make a node busy: ten thousand per second.
const many = 10_000 * int64(beat) / int64(time.Second)

// collect collects the counts of the shards.
func (t *Traffic) collect(now time.Time) {
	t.mu.Lock()
	t.history.advance(now)
	t.mu.Unlock()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.put(s)
		s.mu.Unlock()
	}
}

// calls returns the number of requests decided since the start.
func (t *Traffic) calls() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.history.totals.Counts()
	return c.Allowed + c.Denied
}

// follow prepares a shard for a snapshot. What the shard holds belongs to the last one. The shard must be locked.
func (t *Traffic) follow(s *shard, r *rules.Snapshot) {
	if s.rules == r {
		return
	}
	t.put(s)
	s.rules = r
	s.slots = slices.Grow(s.slots[:0], len(r.Rules))[:len(r.Rules)]
	clear(s.slots)
}

// put moves what a shard holds to the history and to the tails. The shard must be locked.
func (t *Traffic) put(s *shard) {
	t.mu.Lock()
	t.history.add(s)
	t.mu.Unlock()
	for _, tail := range *t.tails.Load() {
		for i := range s.kept {
			tail.offer(&s.kept[i])
		}
	}
	s.empty()
}

// kindOf returns the budget that an observation counts towards: denied requests, and those that would be denied, must
// not be crowded out by others.
func kindOf(o *engine.Observation) int {
	if !o.Verdict.Allowed {
		return 1
	}
	for i := range o.Verdict.Limits {
		if !o.Verdict.Limits[i].Allowed {
			return 1
		}
	}
	return 0
}

func degraded(q penstock.Quality) bool { return q >= penstock.QualityLocal }

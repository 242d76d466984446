package held

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

// ErrFull is returned for a request that cannot be held because too many are held, or because they take too
// much memory.
var ErrFull = errors.New("too many requests are queued")

// Options bound a queue.
type Options struct {
	MaxRequests int   // default 10,000
	MaxBytes    int64 // of the sizes passed to Join; default 128 MiB
}

const (
	// BytesPerRequest is what a held request takes besides what its client sent: its goroutines and the
	// buffers of its connection.
	BytesPerRequest = 16 << 10

	// MaxUnread is how much of a request body a server buffers over HTTP/2 before it is read.
	MaxUnread = 64 << 10
)

// A Queue holds requests until they depart. One timer serves all.
type Queue struct {
	options Options

	mu      sync.Mutex
	total   load
	rules   map[string]*load // of rules that hold requests
	refused map[string]int64 // by rule; only rules that were in force are in it

	waiting departures
	arrived uint64
	leaving bool // a request may depart and has not left yet
	timer   *time.Timer
}

// A load is the number and memory of some held requests.
type load struct {
	requests int
	bytes    int64
}

func (l *load) add(requests int, bytes int64) {
	l.requests += requests
	l.bytes += bytes
}

// New returns an empty queue.
func New(o Options) (*Queue, error) {
	o.MaxRequests = cmp.Or(o.MaxRequests, 10_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 128<<20)
	if o.MaxRequests < 0 || o.MaxBytes < 0 {
		return nil, fmt.Errorf("%w: MaxHeld %d, MaxHeldBytes %d: neither can be negative", penstock.ErrInvalid, o.MaxRequests, o.MaxBytes)
	}
	return &Queue{options: o, rules: map[string]*load{}, refused: map[string]int64{}}, nil
}

// RuleOf returns the rule that delays a request: the one with the longest delay.
func RuleOf(v *penstock.Verdict) string {
	for i := range v.Limits {
		if l := &v.Limits[i]; !l.Shadow && l.Delay == v.Delay {
			return l.Rule
		}
	}
	return v.Rule
}

// A Position is the position of a request in the queue, from Join to Leave.
type Position struct {
	queue  *Queue
	rule   string
	bytes  int64
	called bool // it may depart, and the next one waits for it to leave
}

// Join adds a request of a rule to the queue. A rule may hold as much as is still free, so one rule holds at
// most half of the queue, and some of it is always free for another rule. The error wraps ErrFull.
func (q *Queue) Join(rule string, bytes int64) (Position, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.rules[rule]
	if own == nil {
		own = new(load)
	}
	if own.requests+1 > q.options.MaxRequests-q.total.requests || own.bytes+bytes > q.options.MaxBytes-q.total.bytes {
		q.refused[rule]++
		return Position{}, fmt.Errorf("%w: %d of rule %q, which take %d bytes, %d in all, which take %d; at most %d, %d bytes",
			ErrFull, own.requests, rule, own.bytes, q.total.requests, q.total.bytes, q.options.MaxRequests, q.options.MaxBytes)
	}
	q.rules[rule] = own
	own.add(1, bytes)
	q.total.add(1, bytes)
	return Position{queue: q, rule: rule, bytes: bytes}, nil
}

// Wait returns when it is time to depart and all requests with an earlier departure have left, or with the
// context's error.
func (p *Position) Wait(ctx context.Context, until time.Time) error {
	d := p.queue.enter(until)
	select {
	case <-d.called:
	case <-ctx.Done():
	}
	p.called = p.queue.isCalled(d)
	return ctx.Err() // even if the request was called at the same moment
}

// Leave removes the request from the queue and lets the next one go.
func (p *Position) Leave() {
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total.add(-1, -p.bytes)
	own := q.rules[p.rule]
	if own.add(-1, -p.bytes); own.requests == 0 {
		delete(q.rules, p.rule)
	}
	if p.called {
		q.leaving = false
	}
	q.callNext()
}

// Stats returns how many requests are held, the memory they take, and how many were refused by rule since the
// start.
func (q *Queue) Stats() (requests int, bytes int64, refused map[string]int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total.requests, q.total.bytes, maps.Clone(q.refused)
}

func (q *Queue) enter(until time.Time) *departure {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrived++
	d := &departure{at: until, number: q.arrived, called: make(chan struct{})}
	heap.Push(&q.waiting, d)
	q.callNext()
	return d
}

// isCalled reports whether a request was called. If it was not, it is removed.
func (q *Queue) isCalled(d *departure) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.index < 0 {
		return true
	}
	heap.Remove(&q.waiting, d.index)
	return false
}

// callNext calls the first request if it is time, and otherwise sets the timer.
func (q *Queue) callNext() {
	if q.leaving || len(q.waiting) == 0 {
		return
	}
	if wait := time.Until(q.waiting[0].at); wait > 0 {
		q.callIn(wait)
		return
	}
	d := heap.Pop(&q.waiting).(*departure)
	q.leaving = true
	close(d.called)
}

func (q *Queue) callIn(wait time.Duration) {
	if q.timer != nil {
		q.timer.Reset(wait)
		return
	}
	q.timer = time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.callNext()
	})
}

// A departure is a waiting request.
type departure struct {
	at     time.Time
	number uint64 // order of arrival, for requests that depart at the same time
	index  int    // in the heap; -1: it was called
	called chan struct{}
}

// departures is a heap, the first to depart on top.
type departures []*departure

func (d departures) Len() int { return len(d) }

func (d departures) Less(i, j int) bool {
	if d[i].at.Equal(d[j].at) {
		return d[i].number < d[j].number
	}
	return d[i].at.Before(d[j].at)
}

func (d departures) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *departures) Push(x any) {
	last := x.(*departure)
	last.index = len(*d)
	*d = append(*d, last)
}

func (d *departures) Pop() any {
	n := len(*d) - 1
	last := (*d)[n]
	(*d)[n], *d = nil, (*d)[:n]
	last.index = -1
	return last
}

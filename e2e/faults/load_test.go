package faults

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
)

// An answer is the result of one request.
type answer struct {
	caller
	node    int           // that was asked
	due     time.Duration // when it was to be sent, since the load began
	late    time.Duration // how much later it was sent
	took    time.Duration // from when it was due to the answer
	allowed bool
	used    int // of the limit, as the answer says
	quality penstock.Quality
	retried bool
	err     error
}

// exact reports whether an answer rests on the shared state.
func (a *answer) exact() bool {
	return a.err == nil && (a.quality == penstock.QualityExact || a.quality == penstock.QualityLeased)
}

// A load sends requests to nodes at equal distances, whatever happens to earlier ones, until it is stopped.
type load struct {
	nodes     []penstock.Decider
	perSecond int
	retry     bool // once, at the next node, as a balancer does when a node is gone

	began    time.Time
	stopping atomic.Bool
	done     chan struct{}
	most     int // concurrent requests
	mu       sync.Mutex
	answers  []*answer
}

// crowd bounds the waiting requests: a machine that cannot keep up must not run out of memory.
const crowd = 5000

func startLoad(t *testing.T, l *load) *load {
	l.began, l.done = time.Now(), make(chan struct{})
	go l.run()
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *load) run() {
	defer close(l.done)
	var underWay sync.WaitGroup
	defer underWay.Wait()
	places := make(chan struct{}, crowd)
	gap := time.Second / time.Duration(l.perSecond)
	for n := 0; !l.stopping.Load(); {
		due := time.Duration(n) * gap
		if early := due - time.Since(l.began); early > 0 {
			time.Sleep(max(early, time.Millisecond))
			continue
		}
		places <- struct{}{}
		l.most = max(l.most, len(places))
		a := &answer{caller: callerOf(n), node: nodeOf(n) % len(l.nodes), due: due}
		l.mu.Lock()
		l.answers = append(l.answers, a)
		l.mu.Unlock()
		underWay.Go(func() {
			l.send(a)
			<-places
		})
		n++
	}
}

// nodeOf spreads the requests of each client over the nodes without a pattern.
func nodeOf(n int) int { return int(uint32(n) * 2654435761 >> 8) }

// patient is how long an answer may take; one that takes longer is lost.
const patient = 30 * time.Second

func (l *load) send(a *answer) {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	a.late = l.now() - a.due
	var v penstock.Verdict
	a.err = l.nodes[a.node].Decide(ctx, a.call(), &v)
	if a.err != nil && l.retry {
		a.retried = true
		a.node = (a.node + 1) % len(l.nodes)
		a.err = l.nodes[a.node].Decide(ctx, a.call(), &v)
	}
	a.took = time.Since(l.began) - a.due
	a.allowed, a.quality = v.Allowed, v.Quality
	a.used = int(v.Decision.Limit - v.Decision.Remaining)
}

// now is the time since the load began.
func (l *load) now() time.Duration { return time.Since(l.began) }

// stop ends the load and returns the results of its requests.
func (l *load) stop() []*answer {
	l.stopping.Store(true)
	<-l.done
	return l.answers
}

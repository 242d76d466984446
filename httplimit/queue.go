package httplimit

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"
)

var errQueueFull = errors.New("too many calls are held already")

// A queue holds calls until they depart, in order: while one leaves, the next waits, even if its
// time has come. One timer serves all.
type queue struct {
	max int

	mu      sync.Mutex
	held    departures
	arrived uint64
	leaving bool // one has been called and has not yet left
	timer   *time.Timer
}

// A departure is a held call.
type departure struct {
	at     time.Time
	number uint64 // of arrival, for those that depart at the same time
	index  int    // in the heap; -1: it has been called
	called chan struct{}
}

// hold returns when the delay is over, and then the caller says left when it has gone on. With an
// error, the context's or errQueueFull, there is nothing to say.
func (q *queue) hold(ctx context.Context, delay time.Duration) error {
	d, err := q.join(delay)
	if err != nil {
		return err
	}
	select {
	case <-d.called:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil { // also of one that was called at the same moment
		q.desert(d)
		return err
	}
	return nil
}

func (q *queue) join(delay time.Duration) (*departure, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.held) >= q.max {
		return nil, errQueueFull
	}
	q.arrived++
	d := &departure{at: time.Now().Add(delay), number: q.arrived, called: make(chan struct{})}
	heap.Push(&q.held, d)
	q.callNext()
	return d, nil
}

// left lets the next one go.
func (q *queue) left() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leaving = false
	q.callNext()
}

// desert takes out a call whose client is gone.
func (q *queue) desert(d *departure) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d.index < 0 {
		q.leaving = false
	} else {
		heap.Remove(&q.held, d.index)
	}
	q.callNext()
}

// callNext calls the first if it is time, and else sees to it that it is called in time.
func (q *queue) callNext() {
	if q.leaving || len(q.held) == 0 {
		return
	}
	if wait := time.Until(q.held[0].at); wait > 0 {
		q.callIn(wait)
		return
	}
	d := heap.Pop(&q.held).(*departure)
	q.leaving = true
	close(d.called)
}

func (q *queue) callIn(wait time.Duration) {
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

package traffic

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/penstock-io/penstock/engine"
)

// ErrWatched is returned by Follow if there are too many tails.
var ErrWatched = errors.New("too many streams are open")

// maxTails bounds what tails cost every request.
const maxTails = 16

// A Tail receives requests as they are decided, within a beat. A reader that is too slow misses some: no request
// waits for it.
type Tail struct {
	traffic *Traffic
	filter  Filter
	events  chan Event
	dropped atomic.Int64
}

// Follow returns a new tail, which must be closed. It fails with [ErrWatched].
func (t *Traffic) Follow(f Filter) (*Tail, error) {
	t.following.Lock()
	defer t.following.Unlock()
	tails := *t.tails.Load()
	if len(tails) == maxTails {
		return nil, fmt.Errorf("follow: %w: %d at once", ErrWatched, maxTails)
	}
	tail := &Tail{traffic: t, filter: f, events: make(chan Event, 1024)}
	tails = append(slices.Clone(tails), tail)
	t.tails.Store(&tails)
	return tail, nil
}

// Events returns the channel of decided requests. It is never closed.
func (t *Tail) Events() <-chan Event { return t.events }

// Dropped is about how many requests were missed: those that are only represented by others, and those that were not
// read in time.
func (t *Tail) Dropped() int64 { return t.dropped.Load() }

// Close ends the tail. It may be called twice.
func (t *Tail) Close() {
	t.traffic.following.Lock()
	defer t.traffic.following.Unlock()
	tails := slices.DeleteFunc(slices.Clone(*t.traffic.tails.Load()), func(other *Tail) bool { return other == t })
	t.traffic.tails.Store(&tails)
}

func (t *Tail) offer(e *Event) {
	if !t.filter.wantsEvent(e) {
		return
	}
	missed := max(0, e.Represents-1)
	select {
	case t.events <- *e:
	default:
		missed++
	}
	t.dropped.Add(missed)
}

func anyWants(tails []*Tail, o *engine.Observation) bool {
	return slices.ContainsFunc(tails, func(t *Tail) bool { return t.filter != (Filter{}) && t.filter.matches(o) })
}

package accesslog

import (
	"time"

	"github.com/penstock-io/penstock"
)

// An item is a request that waits for earlier ones.
type item struct {
	at         int64 // µs
	sequence   int64 // order of reading: requests with the same time keep it
	whole      bool  // at has only the precision of a second
	took       time.Duration
	status     int16
	attributes []penstock.Attribute
	cost       int64
	recorded   *RecordedVerdict
}

// maxWaiting bounds the waiting requests, however many a window has.
const maxWaiting = 200_000

// A reorderBuffer sorts requests that are out of order by less than its window. It spreads requests whose times are
// whole seconds evenly over their second.
type reorderBuffer struct {
	window int64 // µs
	newest int64
	last   int64 // time of the last one returned
	heap   []item
	batch  []item
}

func (o *reorderBuffer) add(i item) {
	o.newest = max(o.newest, i.at)
	o.heap = append(o.heap, i)
	for at := len(o.heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if !o.before(at, parent) {
			break
		}
		o.heap[at], o.heap[parent] = o.heap[parent], o.heap[at]
		at = parent
	}
}

func (o *reorderBuffer) before(i, j int) bool {
	a, b := &o.heap[i], &o.heap[j]
	return a.at < b.at || a.at == b.at && a.sequence < b.sequence
}

func (o *reorderBuffer) pop() item {
	top, end := o.heap[0], len(o.heap)-1
	o.heap[0] = o.heap[end]
	o.heap[end] = item{}
	o.heap = o.heap[:end]
	for at := 0; ; {
		child := 2*at + 1
		if child >= end {
			return top
		}
		if child+1 < end && o.before(child+1, child) {
			child++
		}
		if !o.before(child, at) {
			return top
		}
		o.heap[at], o.heap[child] = o.heap[child], o.heap[at]
		at = child
	}
}

// next returns the oldest request if no earlier one can come, or if there are no more.
func (o *reorderBuffer) next(ended bool) (i item, late, ok bool) {
	for len(o.heap) > 0 && (ended || len(o.heap) >= maxWaiting || o.heap[0].at < o.newest-o.window) {
		i = o.pop()
		if i.whole {
			o.spread(i)
			continue
		}
		late = i.at < o.last
		o.last = max(o.last, i.at)
		i.at = o.last
		return i, late, true
	}
	return i, false, false
}

// spread distributes the requests of one second evenly, in the order in which they were read.
func (o *reorderBuffer) spread(first item) {
	o.batch = append(o.batch[:0], first)
	for len(o.heap) > 0 && o.heap[0].at == first.at && o.heap[0].whole {
		o.batch = append(o.batch, o.pop())
	}
	for k := range o.batch {
		i := o.batch[k]
		i.whole = false
		i.at += int64(k) * 1_000_000 / int64(len(o.batch))
		o.add(i)
	}
	clear(o.batch)
}

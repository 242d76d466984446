package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/penstock-io/penstock/internal/traffic"
)

// Bounds of tails.
const (
	batchEvery   = 250 * time.Millisecond // how often other nodes send events
	maxBatch     = 256                    // events of one message; further ones are dropped
	maxBatchSize = 512 << 10              // bytes of them
	renewEvery   = 3 * time.Second        // how often this node asks the others to continue
	lasts        = 15 * time.Second       // how long they continue without being asked
	maxFollowers = 8                      // tails of other nodes at a time
)

// follow asks a node for requests as they are decided.
type follow struct {
	Filter traffic.Filter `json:"filter"`
	Stop   bool           `json:"stop,omitempty"`
}

// events are requests that a node decided, and how many it has left out so far.
type events struct {
	Events  []traffic.Event `json:"events"`
	Dropped int64           `json:"dropped"`
}

// A Tail receives requests as the nodes decide them. A reader that is too slow misses some.
type Tail struct {
	fleet  *Fleet
	number string
	local  *traffic.Tail // nil: only others
	out    chan Event
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	missed  int64            // by a reader that was too slow
	dropped map[string]int64 // by the nodes
}

// Follow returns a new tail of all nodes, or of those with a name or an ID. It must be closed. It fails with
// [traffic.ErrWatched].
func (f *Fleet) Follow(filter traffic.Filter, node string) (*Tail, error) {
	others, self := f.selected(node)
	t := &Tail{fleet: f, number: rand.Text(), out: make(chan Event, 1024), dropped: map[string]int64{}}
	ctx, stop := context.WithCancel(f.ctx)
	t.stop = stop
	if self {
		local, err := f.options.Traffic.Follow(filter)
		if err != nil {
			stop()
			return nil, err
		}
		t.local = local
		t.ended.Go(func() { t.readLocal(ctx) })
	}
	if f.options.Send != nil && (node == "" || len(others) > 0) {
		f.mu.Lock()
		f.following[t.number] = t
		f.mu.Unlock()
		t.ended.Go(func() { t.renew(ctx, filter, node) })
	}
	return t, nil
}

// renew repeatedly asks the other nodes to send their requests: they stop by themselves if this node is down, and
// a node that starts later learns of the tail.
func (t *Tail) renew(ctx context.Context, filter traffic.Filter, node string) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		t.askNode(ctx, node, &follow{Filter: filter})
		select {
		case <-ctx.Done():
			t.askNode(context.WithoutCancel(ctx), node, &follow{Stop: true})
			return
		case <-ticker.C:
		}
	}
}

func (t *Tail) askNode(ctx context.Context, node string, what *follow) {
	m := &message{Number: t.number, Follow: what}
	if node == "" {
		_ = t.fleet.send(ctx, "", m) // the next one may succeed
		return
	}
	others, _ := t.fleet.selected(node)
	for _, n := range others {
		_ = t.fleet.send(ctx, n.ID, m)
	}
}

func (t *Tail) readLocal(ctx context.Context) {
	name := t.fleet.Self().Name
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-t.local.Events():
			t.offer(Event{e, name})
		}
	}
}

// deliver passes on the events of another node.
func (t *Tail) deliver(node string, got *events) {
	t.mu.Lock()
	t.dropped[node] = max(t.dropped[node], got.Dropped)
	t.mu.Unlock()
	for _, e := range got.Events[:min(len(got.Events), maxBatch)] {
		t.offer(Event{e, node})
	}
}

func (t *Tail) offer(e Event) {
	select {
	case t.out <- e:
	default:
		t.mu.Lock()
		t.missed++
		t.mu.Unlock()
	}
}

// Events returns the channel of decided requests. It is never closed.
func (t *Tail) Events() <-chan Event { return t.out }

// Dropped is about how many requests were missed.
func (t *Tail) Dropped() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.missed
	for _, n := range t.dropped {
		sum += n
	}
	if t.local != nil {
		sum += t.local.Dropped()
	}
	return sum
}

// Close ends the tail.
func (t *Tail) Close() {
	t.stop()
	t.fleet.mu.Lock()
	delete(t.fleet.following, t.number)
	t.fleet.mu.Unlock()
	t.ended.Wait()
	if t.local != nil {
		t.local.Close()
	}
}

type followerID struct{ node, number string }

// A remoteFollower is a tail of another node.
type remoteFollower struct {
	renewed chan struct{}
	stop    context.CancelFunc
}

// serve starts, renews or stops the tail of another node.
func (f *Fleet) serve(id followerID, what *follow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.followers[id]
	switch {
	case what.Stop && known != nil:
		known.stop()
	case what.Stop || f.ctx.Err() != nil:
	case known != nil:
		select {
		case known.renewed <- struct{}{}:
		default: // it is being renewed
		}
	case len(f.followers) < maxFollowers:
		f.begin(id, what.Filter)
	}
}

// begin sends requests to another node until it stops asking. f.mu must be held.
func (f *Fleet) begin(id followerID, filter traffic.Filter) {
	tail, err := f.options.Traffic.Follow(filter)
	if err != nil {
		return // too many follow: there will be a place later, and it asks again
	}
	ctx, stop := context.WithCancel(f.ctx)
	r := &remoteFollower{renewed: make(chan struct{}, 1), stop: stop}
	f.followers[id] = r
	f.ended.Go(func() {
		defer func() {
			stop()
			tail.Close()
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.followers, id)
		}()
		f.sendBatches(ctx, id, tail, r.renewed)
	})
}

// sendBatches sends the requests of a tail in batches.
func (f *Fleet) sendBatches(ctx context.Context, id followerID, tail *traffic.Tail, renewed <-chan struct{}) {
	end := time.NewTimer(lasts)
	defer end.Stop()
	beat := time.NewTicker(batchEvery)
	defer beat.Stop()
	dropped, told := int64(0), int64(0) // left out of batches; reported
	for {
		select {
		case <-ctx.Done():
			return
		case <-end.C:
			return
		case <-renewed:
			end.Reset(lasts)
			continue
		case <-beat.C:
		}
		batch, left := take(tail)
		dropped += left
		missed := dropped + tail.Dropped()
		if len(batch) == 0 && missed == told {
			continue
		}
		if f.send(ctx, id.node, &message{Number: id.number, Events: &events{batch, missed}}) != nil {
			dropped += int64(len(batch))
		}
		told = missed
	}
}

// take returns the requests that have arrived, as many as fit in a message, and how many do not.
func take(tail *traffic.Tail) (batch []traffic.Event, left int64) {
	size := 0
	for {
		select {
		case e := <-tail.Events():
			text, err := json.Marshal(&e)
			size += len(text)
			if err != nil || len(batch) == maxBatch || size > maxBatchSize {
				left++
				continue
			}
			batch = append(batch, e)
		default:
			return batch, left
		}
	}
}

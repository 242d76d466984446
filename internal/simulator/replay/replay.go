// Package replay decides requests at the times at which they arrived, by the same engine as a node, on a store of its
// own. Permits and reservations end when the requests did, and limits have the numbers of the entitlements table. It is
// separate so that everything that tries rules on past requests gives the same answer.
package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A Store holds the counters of a replay.
type Store interface {
	penstock.Store
	storage.Settler
	io.Closer
	Expire(now penstock.Instant) // removes expired counters
	Size(ctx context.Context) (int64, error)
}

// A Request is what happened.
type Request struct {
	At         time.Time     // when it arrived
	Took       time.Duration // negative: unknown
	Status     int           // of the response; 0: unknown
	Domain     string
	Attributes []penstock.Attribute
	Cost       int64
}

// A Replay decides requests at the times at which they arrived. They must come in that order.
type Replay struct {
	engine     *engine.Engine
	store      Store
	endsAtOnce bool
	now        penstock.Instant
	running    permitEnds
	call       penstock.Call
	verdict    penstock.Verdict

	since int64 // requests since the last check for Expire
	keys  int64 // that were left when it last ran
}

// expireEvery is the number of requests between two checks of the store's size.
const expireEvery = 1 << 14

// Options configure a replay.
type Options struct {
	Rules        *rules.Snapshot
	Store        Store                     // empty; the replay closes it
	Entitlements rules.Entitlements        // numbers of limits that rules take from a table; nil: none
	Observe      func(*engine.Observation) // receives every decision; may be nil

	// EndsAtOnce says that a request whose duration is unknown ends as soon as it is decided. Otherwise it is an error
	// if a rule limits concurrency.
	EndsAtOnce bool
}

// New returns a replay.
func New(o Options) (*Replay, error) {
	r := &Replay{store: o.Store, endsAtOnce: o.EndsAtOnce}
	var err error
	r.engine, err = engine.New(engine.Options{
		Store: o.Store, Rules: engine.Fixed(o.Rules), Entitlements: o.Entitlements, Observe: o.Observe,
		Now: func() penstock.Instant { return r.now },
	})
	return r, err
}

// Close closes the store.
func (r *Replay) Close() error { return r.store.Close() }

// ErrNoDuration means that a rule limits concurrency but the requests do not have durations.
var ErrNoDuration = errors.New("a rule limits concurrency, and the log does not say how long requests take; name the field with --field duration=NAME")

// Decide decides a request. The verdict is valid until the next call.
func (r *Replay) Decide(ctx context.Context, q *Request) (*penstock.Verdict, error) {
	at := penstock.InstantOf(q.At)
	if err := r.end(ctx, at); err != nil {
		return nil, err
	}
	r.now = at
	r.call = penstock.Call{Domain: q.Domain, Attributes: q.Attributes, Cost: max(1, q.Cost), MaxDelay: penstock.AnyDelay}
	r.verdict.Reset()
	err := r.engine.Decide(ctx, &r.call, &r.verdict)
	if err != nil && !errors.Is(err, penstock.ErrInvalid) {
		return nil, fmt.Errorf("replay the request of %v: %w", q.At, err)
	}
	if r.verdict.Reservation != "" {
		if q.Took < 0 && !r.verdict.SettleEarly && !r.endsAtOnce {
			return nil, ErrNoDuration
		}
		took := max(0, q.Took)
		response := penstock.Response{Status: q.Status, Duration: took, Bytes: penstock.UnknownBytes}
		heap.Push(&r.running, permitEnd{at.Add(r.verdict.Delay + took), r.verdict.Reservation, response})
	}
	return &r.verdict, r.expire(ctx)
}

// end releases the permits of requests that have ended, and corrects what the rules charged that decide by the
// status of the response. A cost that comes with the response is the estimate.
func (r *Replay) end(ctx context.Context, now penstock.Instant) error {
	for len(r.running) > 0 && r.running[0].at <= now {
		e := heap.Pop(&r.running).(permitEnd)
		r.now = e.at
		err := r.engine.Conclude(ctx, &penstock.Conclusion{Reservation: e.reservation, Response: &e.response}, &r.verdict)
		if err != nil && !errors.Is(err, penstock.ErrNoReservation) && !errors.Is(err, penstock.ErrClosed) {
			return fmt.Errorf("settle at %v: %w", e.at, err)
		}
	}
	return nil
}

// expire keeps the size of the store in proportion to its live keys.
func (r *Replay) expire(ctx context.Context) error {
	if r.since++; r.since < expireEvery {
		return nil
	}
	r.since = 0
	keys, err := r.store.Size(ctx)
	if err != nil || keys < 2*r.keys {
		return err
	}
	r.store.Expire(r.now)
	r.keys, err = r.store.Size(ctx)
	return err
}

// A permitEnd is how and when a request ends that has reserved something.
type permitEnd struct {
	at          penstock.Instant
	reservation string
	response    penstock.Response
}

type permitEnds []permitEnd

func (e permitEnds) Len() int           { return len(e) }
func (e permitEnds) Less(i, j int) bool { return e[i].at < e[j].at }
func (e permitEnds) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *permitEnds) Push(x any)        { *e = append(*e, x.(permitEnd)) }
func (e *permitEnds) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

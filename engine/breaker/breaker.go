package breaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-io/penstock"
)

// A Store is what a breaker stands around: what calls need, and what operators do, which passes
// through it untouched.
type Store interface {
	penstock.Store
	penstock.Settler

	penstock.Banner
	penstock.Resetter
	penstock.Inspector
	penstock.Lister
}

// Options say when a breaker opens and how it closes.
type Options struct {
	Store Store

	// Probe tells whether the store serves again: a real operation that harms nobody.
	Probe func(context.Context) error

	// Judge says how bad an error is of which the store is not innocent by itself (see innocent). By
	// default it is a failure.
	Judge func(error) Severity

	// Down, if not nil, says why the breaker is open from the beginning: the store is not there yet.
	// It is probed at once.
	Down error

	// OnChange is told of every change and its cause, nil when it closes. It is called by one
	// goroutine at a time, in order, and holds up the next probe.
	OnChange func(State, error)

	InARow   int           // failures that open it; default 20
	Interval time.Duration // between two probes; default 250 ms
	Patience time.Duration // of one probe; default 1 s
}

// Severity is how bad an error is.
type Severity uint8

const (
	Innocent Severity = iota // says nothing about the store
	Failure                  // one of several that make a store unfit
	Down                     // by itself says that the store serves nobody
)

// State of a breaker.
type State uint8

const (
	Closed State = iota // calls go to the store
	Open                // they do not
)

func (s State) String() string { return [...]string{"closed", "open"}[s] }

// A Breaker is a store that gives up on another one while that does not answer. It may be used by any
// number of goroutines.
type Breaker struct {
	Store   // operators' verbs
	options Options

	phase   atomic.Pointer[phase]
	opened  atomic.Int64
	refused atomic.Int64

	closing context.Context
	close   context.CancelFunc
	ended   sync.WaitGroup
}

var (
	_ penstock.Store   = (*Breaker)(nil)
	_ penstock.Settler = (*Breaker)(nil)
)

// A phase is the time between two changes. A call that began in one and ends in another has no say.
type phase struct {
	refusal error // what calls get; nil: they go to the store
	cause   error // why it was opened
	since   time.Time
	tally   tally
}

// New returns a breaker. Close it to end its probes.
func New(o Options) (*Breaker, error) {
	var errs []error
	if o.Store == nil || o.Probe == nil {
		errs = append(errs, errors.New("it needs a store and a probe"))
	}
	if o.InARow < 0 || o.InARow > window || o.Interval < 0 || o.Patience < 0 {
		errs = append(errs, fmt.Errorf("%d failures in a row (at most %d), interval %v, patience %v: must be positive", o.InARow, window, o.Interval, o.Patience))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("new breaker: %w: %w", penstock.ErrInvalid, err)
	}
	o.InARow = cmp.Or(o.InARow, 20)
	o.Interval, o.Patience = cmp.Or(o.Interval, 250*time.Millisecond), cmp.Or(o.Patience, time.Second)
	if o.Judge == nil {
		o.Judge = func(error) Severity { return Failure }
	}
	if o.OnChange == nil {
		o.OnChange = func(State, error) {}
	}
	b := &Breaker{Store: o.Store, options: o}
	b.closing, b.close = context.WithCancel(context.Background())
	b.phase.Store(&phase{since: time.Now()})
	if o.Down != nil {
		b.open(b.phase.Load(), o.Down, 0)
	}
	return b, nil
}

// Close ends the probes and returns when they have ended. The breaker stays as it is.
func (b *Breaker) Close() {
	b.close()
	b.ended.Wait()
}

// Take asks the store, or refuses at once.
func (b *Breaker) Take(ctx context.Context, t *penstock.Ticket, out *penstock.Outcome) error {
	p := b.phase.Load()
	if p.refusal != nil {
		b.refused.Add(1)
		return p.refusal
	}
	err := b.Store.Take(ctx, t, out)
	b.note(p, ctx, err)
	return err
}

// Settle asks the store, or refuses at once. It may be sent again when the store is back.
func (b *Breaker) Settle(ctx context.Context, s *penstock.Settlement, out *penstock.Settled) error {
	p := b.phase.Load()
	if p.refusal != nil {
		b.refused.Add(1)
		return p.refusal
	}
	err := b.Store.Settle(ctx, s, out)
	b.note(p, ctx, err)
	return err
}

// note counts what became of a call, which may open the breaker.
func (b *Breaker) note(p *phase, ctx context.Context, err error) {
	if err == nil {
		p.tally.success()
		return
	}
	if innocent(ctx, err) {
		return
	}
	switch b.options.Judge(err) {
	case Failure:
		if p.tally.failure(b.options.InARow) {
			b.open(p, err, b.options.Interval)
		}
	case Down:
		b.open(p, err, b.options.Interval)
	}
}

// innocent tells errors that say nothing about whether the store serves others:
//   - ErrInvalid blames the call;
//   - ErrFull and ErrCorrupt are answers, about one subject;
//   - a caller that left, or whose own time was up, has not waited for what the store was given. Else
//     callers in a hurry could close the store to everybody.
func innocent(ctx context.Context, err error) bool {
	return !errors.Is(err, penstock.ErrUnavailable) || errors.Is(err, penstock.ErrInvalid) ||
		errors.Is(err, penstock.ErrFull) || errors.Is(err, penstock.ErrCorrupt) || ctx.Err() != nil
}

// Stats are what a breaker did since it was made.
type Stats struct {
	State   State
	Since   time.Time // in this state
	Cause   error     // why it is open; nil if it is not
	Opened  int64     // how often
	Refused int64     // calls that were not sent
}

// Stats returns the state and the counts so far.
func (b *Breaker) Stats() Stats {
	p := b.phase.Load()
	s := Stats{Since: p.since, Cause: p.cause, Opened: b.opened.Load(), Refused: b.refused.Load()}
	if p.refusal != nil {
		s.State = Open
	}
	return s
}

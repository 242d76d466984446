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
	"github.com/penstock-io/penstock/storage"
)

// Options configure when a breaker opens and how it closes.
type Options struct {
	Store storage.FullStore

	// Probe reports whether one of the store's zones works again, by a real operation that has no side
	// effects for clients.
	Probe func(ctx context.Context, zone int) error

	// Zones are parts of the store that fail independently; the default is one. The breaker opens for the
	// zone that has failed, and requests that need only other zones are not affected. ZoneOf returns the zone
	// that decides a subject, counted from 0. A ticket may need several zones: an error then names the failed
	// zone by a method Subject() storage.Subject, or is not counted.
	Zones  int
	ZoneOf func(storage.Subject) int

	// Judge returns the severity of an error that may be the store's fault (see innocent). By default it is a
	// failure.
	Judge func(error) Severity

	// Down, if not nil, says why the breaker starts open: the store is not available yet. It is probed at
	// once.
	Down error

	// OnChange is called when the first zone opens, with the cause, and when the last one closes. Calls are
	// sequential and in order, and delay the next probe.
	OnChange func(State, error)

	// Observer, if not nil, sees what is sent to the store. It does not see what the breaker refuses.
	Observer Observer

	InARow   int           // consecutive failures that open it; default 20
	Interval time.Duration // between two probes; default 250 ms
	Watch    time.Duration // between two probes while closed, so that failures are noticed without requests; default: none
	Patience time.Duration // timeout of one probe; default 1 s
}

// An Observer measures the operations that requests need from the store: take, settle and charge_late.
type Observer interface {
	// Begin is called before the operation, which gets the context it returns.
	Begin(ctx context.Context, operation string) context.Context

	// End gets that context and the result of the operation.
	End(ctx context.Context, operation string, took time.Duration, err error)
}

// Severity is how bad an error is.
type Severity uint8

const (
	Innocent Severity = iota // does not mean anything about the store
	Failure                  // several of them open the breaker
	Down                     // opens the breaker by itself: the store is unavailable to all
)

// State of a breaker.
type State uint8

const (
	Closed State = iota // requests go to the store
	Open                // requests are refused
)

func (s State) String() string { return [...]string{"closed", "open"}[s] }

// A Breaker is a store with a circuit breaker around another one. It is safe for concurrent use.
type Breaker struct {
	inner   // the store: operators' methods pass through unchanged
	options Options

	zones   []zone
	opened  atomic.Int64
	refused atomic.Int64

	mu   sync.Mutex // around OnChange
	open int        // zones that OnChange knows to be open

	closing context.Context
	close   context.CancelFunc
	ended   sync.WaitGroup
}

type inner = storage.FullStore

var _ storage.FullStore = (*Breaker)(nil)

// MaxZones is the maximum number of zones of a store.
const MaxZones = 16

// A zone is a part of the store that opens and closes as one.
type zone struct{ phase atomic.Pointer[phase] }

// A phase is the time between two changes. An operation that began in one and ends in another is not counted.
type phase struct {
	refusal error // what operations return; nil: they go to the store
	cause   error // why it was opened
	since   time.Time
	tally   tally
}

// New returns a breaker. Close it to stop its probes.
func New(o Options) (*Breaker, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	b := &Breaker{inner: o.Store, options: o, zones: make([]zone, max(1, o.Zones))}
	b.closing, b.close = context.WithCancel(context.Background())
	for z := range b.zones {
		p := &phase{since: time.Now()}
		b.zones[z].phase.Store(p)
		if o.Down != nil {
			b.openZone(z, p, o.Down, 0)
		}
		if o.Watch > 0 {
			b.ended.Go(func() { b.watch(z) })
		}
	}
	return b, nil
}

func (o *Options) validate() error {
	var errs []error
	if o.Store == nil || o.Probe == nil {
		errs = append(errs, errors.New("it needs a store and a probe"))
	}
	if o.InARow < 0 || o.InARow > window || o.Interval < 0 || o.Watch < 0 || o.Patience < 0 {
		errs = append(errs, fmt.Errorf("%d failures in a row (at most %d), interval %v, watch %v, patience %v: must be positive", o.InARow, window, o.Interval, o.Watch, o.Patience))
	}
	if o.Zones < 0 || o.Zones > MaxZones || o.Zones > 1 && o.ZoneOf == nil {
		errs = append(errs, fmt.Errorf("%d zones: must be from 1 to %d, and more than one need ZoneOf", o.Zones, MaxZones))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("new breaker: %w: %w", penstock.ErrInvalid, err)
	}
	return nil
}

func (o *Options) setDefaults() {
	o.InARow = cmp.Or(o.InARow, 20)
	o.Interval, o.Patience = cmp.Or(o.Interval, 250*time.Millisecond), cmp.Or(o.Patience, time.Second)
	if o.Judge == nil {
		o.Judge = func(error) Severity { return Failure }
	}
	if o.OnChange == nil {
		o.OnChange = func(State, error) {}
	}
	if o.Zones <= 1 {
		o.ZoneOf = func(storage.Subject) int { return 0 }
	}
}

// Close stops the probes and returns when they have ended. The breaker keeps its state.
func (b *Breaker) Close() {
	b.close()
	b.ended.Wait()
}

// Take asks the store, or refuses at once.
func (b *Breaker) Take(ctx context.Context, t *storage.Ticket, out *storage.Outcome) error {
	var w zonePhases
	for i := range t.Groups {
		if err := b.enter(&w, t.Groups[i].Subject); err != nil {
			return err
		}
	}
	call := b.begin(ctx, "take")
	err := b.inner.Take(call.ctx, t, out)
	b.end(&call, &w, ctx, err)
	return err
}

// Settle asks the store, or refuses at once. It may be sent again when the store is back.
func (b *Breaker) Settle(ctx context.Context, s *storage.Settlement, out *storage.SettleOutcome) error {
	var w zonePhases
	if err := b.enter(&w, s.Subject); err != nil {
		return err
	}
	call := b.begin(ctx, "settle")
	err := b.inner.Settle(call.ctx, s, out)
	b.end(&call, &w, ctx, err)
	return err
}

// ChargeLate asks the store, or refuses at once. It may be sent again when the store is back.
func (b *Breaker) ChargeLate(ctx context.Context, c *storage.LateCharge) error {
	var w zonePhases
	if err := b.enter(&w, c.Subject); err != nil {
		return err
	}
	call := b.begin(ctx, "charge_late")
	err := b.inner.ChargeLate(call.ctx, c)
	b.end(&call, &w, ctx, err)
	return err
}

// A call is a running operation of the store, for the observer.
type call struct {
	ctx       context.Context
	operation string
	began     time.Time
}

func (b *Breaker) begin(ctx context.Context, operation string) call {
	if b.options.Observer == nil {
		return call{ctx: ctx}
	}
	return call{b.options.Observer.Begin(ctx, operation), operation, time.Now()}
}

// end reports the result of the call to the observer, and counts it. ctx is the client's own.
func (b *Breaker) end(c *call, w *zonePhases, ctx context.Context, err error) {
	if b.options.Observer != nil {
		b.options.Observer.End(c.ctx, c.operation, time.Since(c.began), err)
	}
	b.note(w, ctx, err)
}

// A zonePhases is the zones that a call needs, each in the phase in which the call began; nil: not needed.
type zonePhases [MaxZones]*phase

// enter adds a subject's zone, or refuses.
func (b *Breaker) enter(w *zonePhases, who storage.Subject) error {
	z := b.options.ZoneOf(who)
	w[z] = b.zones[z].phase.Load()
	if w[z].refusal != nil {
		b.refused.Add(1)
	}
	return w[z].refusal
}

// note counts the result of a call, which may open the breaker.
func (b *Breaker) note(w *zonePhases, ctx context.Context, err error) {
	if err == nil {
		for _, p := range w[:len(b.zones)] {
			if p != nil {
				p.tally.success()
			}
		}
		return
	}
	if isNoFailure(ctx, err) {
		return
	}
	z := b.failedZone(w, err)
	if z < 0 {
		return
	}
	switch b.options.Judge(err) {
	case Failure:
		if w[z].tally.failure(b.options.InARow) {
			b.openZone(z, w[z], err, b.options.Interval)
		}
	case Down:
		b.openZone(z, w[z], err, b.options.Interval)
	}
}

// failedZone returns the zone that caused an error; -1 if that is unknown.
func (b *Breaker) failedZone(w *zonePhases, err error) int {
	var named interface{ Subject() storage.Subject }
	if errors.As(err, &named) {
		if z := b.options.ZoneOf(named.Subject()); w[z] != nil {
			return z
		}
		return -1
	}
	blamed := -1
	for z, p := range w[:len(b.zones)] {
		switch {
		case p == nil:
		case blamed >= 0: // one of several
			return -1
		default:
			blamed = z
		}
	}
	return blamed
}

// isNoFailure reports whether an error says nothing about whether the store works for other requests:
//   - ErrInvalid means that the request is invalid;
//   - ErrFull and ErrCorrupt are answers, about one subject;
//   - a client that disconnected, or whose own deadline passed, did not wait for the store's timeout.
//     Otherwise impatient clients could open the breaker for all.
func isNoFailure(ctx context.Context, err error) bool {
	return !errors.Is(err, penstock.ErrUnavailable) || errors.Is(err, penstock.ErrInvalid) ||
		errors.Is(err, storage.ErrFull) || errors.Is(err, storage.ErrCorrupt) || ctx.Err() != nil
}

// Stats are the state of a breaker and its counts since it was created.
type Stats struct {
	State   State     // Open if any zone is open
	Zones   int       // that are open
	Since   time.Time // in this state
	Cause   error     // why a zone is open; nil if none is
	Opened  int64     // how often any zone opened
	Refused int64     // operations that were not sent
}

// Stats returns the state and the counts so far.
func (b *Breaker) Stats() Stats {
	s := Stats{Opened: b.opened.Load(), Refused: b.refused.Load()}
	for z := range b.zones {
		p := b.zones[z].phase.Load()
		if p.refusal == nil {
			if s.Zones == 0 && p.since.After(s.Since) { // the last to close
				s.Since = p.since
			}
			continue
		}
		if s.Zones == 0 || p.since.Before(s.Since) { // the first to open
			s.Since, s.Cause = p.since, p.cause
		}
		s.State, s.Zones = Open, s.Zones+1
	}
	return s
}

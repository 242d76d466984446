package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// Options say what an engine decides by.
type Options struct {
	Store penstock.Store
	Rules Rules

	// Local answers for rules whose on_store_error is local while Store does not: state of this
	// node alone. Without one such rules let calls pass, unchecked.
	Local penstock.Store

	// Observe sees every verdict after it was reached. It must be quick, keep nothing of what it
	// is shown, and may be called by any number of goroutines at once.
	Observe func(*Observation)

	// Now replaces the clocks, the store's too, for tests and replays.
	Now func() penstock.Instant
}

// Rules are the rules to decide by now: *rules.Live, or [Fixed].
type Rules interface{ Load() *rules.Snapshot }

// An Observation is one decided call.
type Observation struct {
	Call    *penstock.Call
	Verdict *penstock.Verdict
	Err     error // as Decide returned it

	// Failures are of rules that could not be evaluated for this call: their expression failed, or
	// they panicked.
	Failures []RuleFailure

	// Beyond is how many of the rules that apply were left out, as a call can be charged under at
	// most [penstock.MaxGroups].
	Beyond int
}

// A RuleFailure names a rule that could not be evaluated for a call, and why.
type RuleFailure struct {
	Rule *rules.Rule
	Err  error
}

// An Engine decides calls. It may be used by any number of goroutines.
type Engine struct {
	store   penstock.Store
	local   penstock.Store
	rules   Rules
	observe func(*Observation)
	now     func() penstock.Instant // nil: the clocks

	works sync.Pool // of *work
}

var (
	_ penstock.Decider   = (*Engine)(nil)
	_ penstock.Concluder = (*Engine)(nil)
)

// New returns an engine.
func New(o Options) (*Engine, error) {
	if o.Store == nil || o.Rules == nil {
		return nil, errors.New("new engine: it needs a store and rules")
	}
	e := &Engine{store: o.Store, local: o.Local, rules: o.Rules, observe: o.Observe, now: o.Now}
	if e.observe == nil {
		e.observe = func(*Observation) {}
	}
	e.works.New = func() any { return new(work) }
	return e, nil
}

// Fixed are rules that do not change.
func Fixed(s *rules.Snapshot) Rules { return fixed{s} }

type fixed struct{ *rules.Snapshot }

func (f fixed) Load() *rules.Snapshot { return f.Snapshot }

// Sources are the attributes that the rules want to know of a request. The slice changes only with
// the rules and must not be written to.
func (e *Engine) Sources() []penstock.Source { return e.rules.Load().Sources }

// Decide answers a call.
func (e *Engine) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	w := e.works.Get().(*work)
	defer e.works.Put(w)
	err := e.decide(ctx, c, v, w)
	e.tell(c, v, w, err)
	return err
}

func (e *Engine) decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *work) error {
	settled, err := e.prepare(c, v, w)
	if settled {
		return err
	}
	if err := e.take(ctx, e.store, w); err != nil {
		return e.without(ctx, c, v, w, err)
	}
	w.fill(v, penstock.QualityExact)
	return nil
}

// prepare decides what needs no store, and makes the ticket for the rest.
func (e *Engine) prepare(c *penstock.Call, v *penstock.Verdict, w *work) (settled bool, err error) {
	w.reset(e.rules.Load())
	v.Reset()
	v.RulesVersion = w.snapshot.Version
	if err := validate(c); err != nil {
		return true, err
	}
	now := e.instant()
	v.Now = now
	w.match(c, now)
	switch {
	case w.matched.Denied:
		v.Reason = penstock.ReasonDenyList
		v.Decision.RetryAfter = penstock.Never
		return true, nil
	case w.matched.Allowed:
		v.Allowed, v.Reason = true, penstock.ReasonAllowList
		return true, nil
	}
	w.write(c)
	if e.now != nil {
		w.ticket.Now = now
	}
	if w.refused != nil {
		v.Rule, v.Reason, v.Quality = w.refused.Name, penstock.ReasonStoreError, penstock.QualityUnchecked
		return true, nil
	}
	if len(w.ticket.Groups) == 0 {
		v.Allowed, v.Reason = true, penstock.ReasonNoRule
		return true, nil
	}
	w.ticket.Nonce = rand.Uint64() | 1
	return false, nil
}

func (e *Engine) instant() penstock.Instant {
	if e.now != nil {
		return e.now()
	}
	return penstock.InstantOf(time.Now())
}

// take asks a store, and makes an error of a panic: a store that panics has not answered.
func (e *Engine) take(ctx context.Context, store penstock.Store, w *work) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: it panicked: %v", penstock.ErrUnavailable, p)
		}
	}()
	return store.Take(ctx, w.ticket, w.outcome)
}

func (e *Engine) tell(c *penstock.Call, v *penstock.Verdict, w *work, err error) {
	w.observation = Observation{Call: c, Verdict: v, Err: err, Failures: w.failures, Beyond: w.beyond}
	e.observe(&w.observation)
	w.observation = Observation{}
}

// Bounds of a call.
const (
	MaxAttributes    = 256
	MaxAttributeName = 128
	MaxAttribute     = 8 << 10 // bytes of a value
	MaxCallID        = 8 << 10
)

func validate(c *penstock.Call) error {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w call: "+format, append([]any{penstock.ErrInvalid}, args...)...))
	}
	if c.Cost < 0 || c.Cost > penstock.MaxCount {
		fail("cost %d is not from 0 to %d", c.Cost, int64(penstock.MaxCount))
	}
	if c.MaxDelay < 0 {
		fail("max delay %v is negative", c.MaxDelay)
	}
	if c.TTL != 0 && (c.TTL < penstock.MinWindow || c.TTL > penstock.MaxReserve) {
		fail("reserved for %v, must be from %v to %v", c.TTL, penstock.MinWindow, penstock.MaxReserve)
	}
	if len(c.ID) > MaxCallID {
		fail("its id has %d bytes; at most %d", len(c.ID), MaxCallID)
	}
	if len(c.Attributes) > MaxAttributes {
		fail("%d attributes; at most %d", len(c.Attributes), MaxAttributes)
	}
	for i := range min(len(c.Attributes), MaxAttributes) {
		a := &c.Attributes[i]
		if len(a.Name) == 0 || len(a.Name) > MaxAttributeName {
			fail("attribute %d: its name has %d bytes, must be from 1 to %d", i, len(a.Name), MaxAttributeName)
		}
		if len(a.Value) > MaxAttribute {
			fail("attribute %.32q has %d bytes; at most %d", a.Name, len(a.Value), MaxAttribute)
		}
	}
	return errors.Join(errs...)
}

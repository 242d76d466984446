package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Options configure an engine.
type Options struct {
	Store penstock.Store
	Rules Rules

	// Local decides by rules whose on_store_error is local while Store is unavailable. If it is a
	// [storage.Follower], it learns what Store answers and continues from there. Without a local store such
	// rules allow requests unchecked, unless Store is full: then they deny.
	Local penstock.Store

	// Blocks are keys whose requests are denied before any list or rule is consulted; nil: there are none.
	Blocks *blocklist.List

	// Entitlements are the numbers of limits that rules take from a table. Without them, such limits have their
	// default.
	Entitlements rules.Entitlements

	// Nodes returns how many nodes share the limits, for rules that divide them while Store does not answer;
	// the default is one. It is called often.
	Nodes func() int

	// Observe sees every verdict, but not requests that were cancelled before they were decided. It must be quick,
	// must not keep its argument, and must be safe for concurrent use.
	Observe func(*Observation)

	// Failed sees the rules whose conditions about a response could not be evaluated; it may be nil. The charge
	// then stays, and the response is not a strike. It must be quick, must not keep its argument, and must be safe for
	// concurrent use.
	Failed func(*rules.Snapshot, *RuleFailure)

	// Refunds allows [Engine.Refund] and [Engine.RefundPart] to give back what requests were charged. Denials
	// are then not cached, because a refund on any node may end them.
	Refunds bool

	// Now replaces all clocks, including the store's, for tests and replays.
	Now func() penstock.Instant
}

// Rules returns the current rules: *live.Rules, or [Fixed].
type Rules interface{ Load() *rules.Snapshot }

// Fixed returns rules that do not change.
func Fixed(s *rules.Snapshot) Rules { return fixedRules{s} }

type fixedRules struct{ *rules.Snapshot }

func (f fixedRules) Load() *rules.Snapshot { return f.Snapshot }

// An Observation is one decided request. Copy what is to be kept of it.
type Observation struct {
	Call    *penstock.Call
	Verdict *penstock.Verdict
	Err     error // as returned by Decide

	// Rules is the snapshot that decided the request, and Matched are its rules that apply, in their order,
	// with their keys. A list may still have decided, or an override may have lifted a rule's limits: the
	// verdict's limits are those of the rules that were asked.
	Rules   *rules.Snapshot
	Matched []rules.MatchedRule

	// Failures are the rules that could not be evaluated for this request: an expression failed, for which
	// rules.OnError applies, or the rule panicked.
	Failures []RuleFailure

	// Block is what denied the request, or nil. Then no rule was matched.
	Block *blocklist.Block

	// Fallbacks are the limits that have their default number, because data had no valid one for this request.
	Fallbacks []rules.Fallback

	// Beyond is how many of the rules that apply were left out, because a request can be charged under at
	// most [storage.MaxGroups]: shadow rules first, then the last in the document.
	Beyond int
}

// A RuleFailure names a rule that could not be evaluated for a request, and why.
type RuleFailure struct {
	Rule *rules.Rule
	Err  error
}

// An Engine decides requests, singly or several atomically. It is safe for concurrent use.
type Engine struct {
	store   penstock.Store
	local   penstock.Store // nil: none
	nodes   func() int     // nil: one
	rules   Rules
	blocks  *blocklist.List
	observe func(*Observation)
	failed  func(*rules.Snapshot, *RuleFailure)
	now     func() penstock.Instant // nil: the clocks

	data     rules.Data       // numbers of limits
	follower storage.Follower // the local store; nil: it cannot learn
	books    lateCharges

	expiry atomic.Pointer[expiry] // of the latest rules
	shares atomic.Pointer[nodeShares]

	works   sync.Pool // of *work
	parties sync.Pool // of *party

	unconfirmed *unconfirmedSet
	cancelled   atomic.Int64 // requests whose caller left before they were decided
}

var (
	_ penstock.Decider   = (*Engine)(nil)
	_ penstock.Concluder = (*Engine)(nil)

	_ attribute.Checker = (*Engine)(nil)
)

// New returns an engine.
func New(o Options) (*Engine, error) {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("store: none given, for example a memstore"))
	}
	if o.Rules == nil || o.Rules.Load() == nil {
		errs = append(errs, errors.New("rules: none given; Fixed makes some of a snapshot"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%w engine options: %w", penstock.ErrInvalid, errors.Join(errs...))
	}
	e := &Engine{store: o.Store, local: o.Local, nodes: o.Nodes, rules: o.Rules, blocks: o.Blocks, observe: o.Observe, failed: o.Failed, now: o.Now, unconfirmed: newUnconfirmedSet()}
	if e.blocks == nil {
		e.blocks = new(blocklist.List)
	}
	e.data = rules.Data{Entitlements: o.Entitlements, Now: e.instant}
	e.follower, _ = o.Local.(storage.Follower)
	if o.Local != nil {
		e.books.charger, _ = o.Store.(storage.LateCharger)
		e.books.now = o.Now
	}
	if e.observe == nil {
		e.observe = func(*Observation) {}
	}
	if e.failed == nil {
		e.failed = func(*rules.Snapshot, *RuleFailure) {}
	}
	e.works.New = func() any { return &workspace{refunds: o.Refunds, data: &e.data} }
	e.parties.New = func() any { return new(atomicBatch) }
	return e, nil
}

// Close sends the shared store what it does not know yet: which requests were admitted without it, and the
// releases and settlements that it did not confirm. It returns when the store has confirmed everything or the
// context ends; what is left then is lost. The engine still decides after Close.
func (e *Engine) Close(ctx context.Context) error {
	charged := make(chan error, 1)
	go func() { charged <- e.books.flush(ctx) }()
	return errors.Join(e.confirmAll(ctx), <-charged)
}

// Sources returns the attributes that the rules read from a request. The slice changes only with the rules
// and must not be modified.
func (e *Engine) Sources() []attribute.Source { return e.rules.Load().Sources }

// ReadsBody reports whether the rules may need attributes of the body of a request that has its other attributes.
func (e *Engine) ReadsBody(c *penstock.Call) bool {
	s := e.rules.Load()
	return s.ReadsBody(c, e.instantFor(s))
}

// NeedsField reports whether the deny list, or a rule that may match a request and enforces its limits, reads an
// attribute of its body. The request has its other attributes.
func (e *Engine) NeedsField(c *penstock.Call, attribute string) bool {
	s := e.rules.Load()
	return s.NeedsField(c, e.instantFor(s), attribute)
}

// CheckAttributes implements [attribute.Checker]. If the rules can change, they must be a *live.Rules, or
// have its method Require, so that later rules are checked too.
func (e *Engine) CheckAttributes(domain string, check func(attribute string, from *attribute.Source) error) error {
	whole := func(s *rules.Snapshot) error { return s.CheckAttributes(domain, check) }
	if live, ok := e.rules.(interface {
		Require(func(*rules.Snapshot) error) error
	}); ok {
		return live.Require(whole)
	}
	return whole(e.rules.Load())
}

// Decide decides a request. The verdict of an invalid request only says that it is denied.
func (e *Engine) Decide(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	w := e.works.Get().(*workspace)
	defer e.works.Put(w)
	settled, err := e.prepare(e.rules.Load(), c, v, w)
	if !settled {
		err = e.finish(ctx, v, w, e.takeShared(ctx, &w.turn))
	}
	if len(c.CacheBy) > 0 && err == nil {
		v.CacheFor = w.cacheFor(c, v)
	}
	e.tellObserver(c, v, w, err)
	return err
}

// prepare decides what needs no store, and builds the ticket for the rest.
func (e *Engine) prepare(s *rules.Snapshot, c *penstock.Call, v *penstock.Verdict, w *workspace) (settled bool, err error) {
	w.reset(s)
	v.Reset()
	v.RulesVersion = w.snapshot.Version
	if err := validate(c); err != nil {
		v.Now = e.instant()
		return true, err
	}
	if e.block(c, v, w) {
		return true, nil
	}
	now := e.instantFor(w.snapshot)
	w.match(c, now)
	if !w.matched.Denied && !w.matched.Allowed && w.matched.Refused == nil {
		w.write(c)
	}
	return e.settleWithoutStore(v, w, now), nil
}

// settleWithoutStore decides a request with known rules and a finished ticket if that needs no store, and
// reports whether it did.
func (e *Engine) settleWithoutStore(v *penstock.Verdict, w *workspace, now penstock.Instant) bool {
	switch {
	case w.matched.Denied:
		v.Reason = penstock.ReasonDenyList
		v.Decision.RetryAfter = penstock.Never
	case w.matched.Allowed:
		v.Allowed, v.Reason = true, penstock.ReasonAllowList
	case w.matched.Refused != nil:
		v.Rule, v.Reason = w.matched.Refused.Name, penstock.ReasonRuleError
		v.Decision.RetryAfter = penstock.Never
	case w.refused != nil:
		v.Rule, v.Reason, v.Quality = w.refused.Name, penstock.ReasonStoreError, penstock.QualityClosed
	case len(w.turn.Ticket.Groups) == 0:
		v.Allowed, v.Reason = true, penstock.ReasonNoRule
	default:
		if e.now != nil {
			w.turn.Ticket.Now = now
		}
		return false
	}
	if v.Now = now; now == 0 {
		v.Now = e.instant()
	}
	return true
}

// finish builds the verdict from the store's answer, or from the rules' failure policies if there is none.
func (e *Engine) finish(ctx context.Context, v *penstock.Verdict, w *workspace, err error) error {
	switch {
	case err == nil:
		v.Reason = penstock.ReasonNoRule
		e.fill(ctx, v, w, e.store, penstock.QualityExact)
		e.updateLocal(w)
	case errors.Is(err, penstock.ErrInvalid):
		v.Now = e.instant() // the verdict denies, as initialised
	case errors.Is(err, storage.ErrFull):
		if w.dropShadow() {
			return e.finish(ctx, v, w, take(ctx, e.store, &w.turn))
		}
		e.full(v, w)
	case hasLeft(ctx):
		e.releaseLost(&w.turn.Ticket, err)
		v.Now, w.cancelled = e.instant(), true // the verdict denies, as initialised
	default:
		e.releaseLost(&w.turn.Ticket, err)
		w.uncharged = errors.Is(err, storage.ErrNotTaken)
		e.decideWithoutStore(v, w)
	}
	return err
}

// hasLeft reports whether the caller has cancelled the request. That says nothing about the store, so no failure policy
// decides, and a client cannot make one decide by leaving. A deadline that has passed is the caller's way to bound how
// long the store may take.
func hasLeft(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// takeShared asks the shared store to decide a ticket.
func (e *Engine) takeShared(ctx context.Context, t *storage.BatchItem) error {
	if err := e.books.settle(ctx, t.Ticket.Groups); err != nil {
		return err
	}
	t.Outcome.States = t.Outcome.States[:0] // left from another ticket: not every store fills them in
	return take(ctx, e.store, t)
}

// take asks a store, and turns a panic into an error: a store that panics has not answered.
func take(ctx context.Context, store penstock.Store, t *storage.BatchItem) (err error) {
	defer recoverPanic(&err)
	return store.Take(ctx, &t.Ticket, &t.Outcome)
}

// recoverPanic turns a panic of a store into an error. It is deferred.
func recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %w", penstock.ErrUnavailable, newPanicError(p))
	}
}

// A PanicError is a panic that was turned into the failure of one request.
type PanicError struct {
	Value any
	Stack []byte // where it came from
}

func newPanicError(value any) *PanicError { return &PanicError{value, debug.Stack()} }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

func (e *Engine) tellObserver(c *penstock.Call, v *penstock.Verdict, w *workspace, err error) {
	if w.cancelled {
		e.cancelled.Add(1)
		return
	}
	w.observation = Observation{
		Call: c, Verdict: v, Err: err, Rules: w.snapshot, Matched: w.matched.Rules, Failures: w.failures,
		Block: w.block, Fallbacks: w.fallbacks, Beyond: w.beyond,
	}
	e.observe(&w.observation)
	w.observation = Observation{}
}

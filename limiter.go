package penstock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A Limiter applies the same limits to every key: a user, an address, an API key. Several limits are charged
// atomically, all or none. A Limiter is safe for concurrent use.
//
// If the store cannot decide, methods return an error that wraps [ErrUnavailable], and a decision that denies
// the request, or allows it under [FailOpen]. So a program that checks only Allowed still behaves as
// configured.
//
// It is a [Decider] and a [Concluder], so httplimit.Limit and grpclimit.Limit can put it in front of
// handlers.
type Limiter struct {
	store    Store
	name     string // the name that clients see
	meters   []*algorithm.Meter
	policies []string
	subjects storage.RuleHasher
	seal     sealer // seals reservations
	reserve  time.Duration
	failOpen bool

	takesPermits bool
	isReturnable bool // every meter can give back, so Reserve works

	single  storage.Single  // decides the only limit without tickets; nil if it needs them, or there are more
	several storage.Several // the same for several limits

	works sync.Pool // of *limiterWork
}

var (
	_ Decider   = (*Limiter)(nil)
	_ Concluder = (*Limiter)(nil)
)

// limiterDomain separates the counters of limiters from those of rules, whose domains have no capitals.
const limiterDomain = "Limiter"

// KeyAttribute is the attribute of a [Call] that a [Limiter] counts by.
const KeyAttribute = "key"

// New returns a limiter that keeps its counters in the store, for example
//
//	limiter, err := penstock.New(store, penstock.PerMinute(100), penstock.WithName("search"))
//
// Keys are stored as hashes: see [WithSecret]. A limiter needs a name unless the store says, with a method
// InProcess() bool, that no other process shares its counters, as a memstore does. Limiters without a name
// share no counters.
func New(store Store, options ...Option) (*Limiter, error) {
	o := limiterOptions{reserveTTL: reserveTTL}
	optionErr := o.add(options)
	l := &Limiter{store: store, name: o.name, reserve: o.reserveTTL, failOpen: o.failOpen}
	if err := errors.Join(optionErr, o.validate(store), l.compile(o.limits)); err != nil {
		return nil, fmt.Errorf("new limiter: %w: %w", ErrInvalid, err)
	}
	counters := o.name
	if o.name == "" {
		l.name, counters = "limit", "Unnamed "+strconv.FormatUint(newNonce(), 36)
	}
	hasher := storage.NewHasher(o.secret)
	l.subjects = hasher.Rule(limiterDomain, counters, KeyAttribute)
	if s, ok := store.(storage.SingleStore); ok && len(l.meters) == 1 {
		l.single = s.Single(store, l.subjects, l.meters[0])
	}
	if s, ok := store.(storage.SeveralStore); ok && len(l.meters) > 1 {
		l.several = s.Several(store, l.subjects, l.meters)
	}
	l.seal = newSealer(hasher, counters, l.meters)
	l.policies = policyNames(l.name, l.meters)
	l.works.New = func() any { return newLimiterWork(l.meters) }
	return l, nil
}

// compile checks the limits, each by itself and against each other.
func (l *Limiter) compile(limits []Limit) error {
	var errs []error
	l.isReturnable = true
	for i := range limits {
		m, err := limits[i].Compile()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, other := range l.meters {
			if other.Fingerprint == m.Fingerprint {
				errs = append(errs, fmt.Errorf("limits %q and %q have the same algorithm and window: keep one of them", other, m))
			}
		}
		l.meters = append(l.meters, m)
		l.takesPermits = l.takesPermits || m.Kind == algorithm.KindLeases
		l.isReturnable = l.isReturnable && m.Returns() == nil
	}
	if _, ok := l.store.(storage.Settler); !ok && l.takesPermits {
		errs = append(errs, errors.New("a concurrency limit needs a store that can release permits: a storage.Settler"))
	}
	return errors.Join(errs...)
}

// policyNames names limits in headers: by the limiter's name, with a suffix that distinguishes several
// limits.
func policyNames(name string, meters []*algorithm.Meter) []string {
	names := make([]string, len(meters))
	spans := map[string]int{}
	for _, m := range meters {
		spans[windowName(m)]++
	}
	for i, m := range meters {
		names[i] = name
		if len(meters) > 1 {
			names[i] += ":" + windowName(m)
		}
		if spans[windowName(m)] > 1 {
			names[i] += ":" + m.Algorithm().String()
		}
	}
	return names
}

// windowName returns what a limit counts over: 1m, month, concurrent.
func windowName(m *algorithm.Meter) string {
	switch l := m.Limit(); {
	case l.Algorithm == Concurrency:
		return "concurrent"
	case l.Period != NoPeriod:
		return l.Period.String()
	default:
		s := strings.TrimSuffix(l.Window.String(), "m0s")
		if s == l.Window.String() {
			return s
		}
		if hours, ok := strings.CutSuffix(s, "h0"); ok {
			return hours + "h"
		}
		return s + "m"
	}
}

// Allow takes 1 for the key if every limit allows it. The empty string is a key like any other: all requests with
// it count as one client. Middleware rejects requests without a key.
func (l *Limiter) Allow(ctx context.Context, key string) (Decision, error) {
	return l.Take(ctx, key, 1)
}

// Take takes the cost for the key if every limit allows it. The decision is that of the strictest limit: of
// those that deny, the one with the longest wait; otherwise the one with the least left.
//
// A limiter with a concurrency limit needs [Limiter.Reserve], which names the permit to release.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (d Decision, err error) {
	if l.single == nil {
		if l.several != nil {
			if d, ok := l.several.Take(ctx, key, cost); ok {
				return d, nil
			}
		}
		return l.takeTicket(ctx, key, cost)
	}
	st, r, err := l.single.Take(ctx, 0, key, cost, 0)
	if err != nil {
		return l.failed(ctx, err)
	}
	m := l.meters[0]
	m.ReportFixed(&d, st, r, cost, 0)
	if m.Kind == algorithm.KindLeaky {
		charge := algorithm.Charge{Meter: m, Cost: cost}
		charge.Correct(&d)
	}
	return d, nil
}

// Peek takes nothing, and returns what the key has used and has left. Allowed says whether anything is left.
// RetryAfter is that of a cost of 0, so it may be 0 even if nothing is left: only a request that takes
// something is told when to retry. Under a leaky bucket, Delay is how long the next request would have to wait.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	d, err := l.Take(ctx, key, 0)
	if err == nil {
		d.Allowed = d.Allowed && d.Remaining > 0
	}
	return d, err
}

// Reserve takes an estimated cost that can be corrected, or a permit of a concurrency limit. If the request
// is allowed, the reservation names what it took, for [Limiter.Settle], [Limiter.Release] and
// [Limiter.Renew], on this node or any other with a limiter of the same name and secret, and the same limits
// in the same order. It is empty if nothing was taken: the cost is 0, or [FailOpen] allowed the request. A cost
// that is not settled or released in time stays charged; permits expire. See [WithReserveTTL].
//
// A leaky bucket cannot be reserved.
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64) (d Decision, reservation string, err error) {
	w := l.work()
	defer l.works.Put(w)
	err = l.decide(ctx, w, key, &Call{Cost: cost, Reserve: true}, &w.verdict)
	return w.verdict.decision(), w.verdict.Reservation, err
}

// Settle charges the true cost instead of the estimate, and gives permits back. A cost above the estimate is
// charged as far as the limits have room or an Overdraft. It takes effect once, so it may be sent again after
// an error that wraps [ErrUnavailable].
func (l *Limiter) Settle(ctx context.Context, reservation string, cost int64) (Decision, error) {
	return l.concludeOnce(ctx, &Conclusion{Reservation: reservation, Verb: Settle, Cost: cost})
}

// Release gives back everything that was reserved. Releasing an expired permit is a no-op. Like Settle, it
// may be sent again.
func (l *Limiter) Release(ctx context.Context, reservation string) error {
	_, err := l.concludeOnce(ctx, &Conclusion{Reservation: reservation, Verb: Release})
	return err
}

// Renew extends a reservation and its permits by their full time to live, from now on.
func (l *Limiter) Renew(ctx context.Context, reservation string) error {
	_, err := l.concludeOnce(ctx, &Conclusion{Reservation: reservation, Verb: Renew})
	return err
}

// Reset clears what the key has used.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	resetter, ok := l.store.(storage.Resetter)
	if !ok {
		return fmt.Errorf("limiter %q: reset: %w: the store is not a storage.Resetter", l.name, ErrInvalid)
	}
	w := l.work()
	defer l.works.Put(w)
	w.prepare(l, key, &Call{})
	return l.wrap("reset", resetter.Reset(ctx, &w.group[0]))
}

// wrap adds the limiter's name and the operation to an error.
func (l *Limiter) wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("limiter %q: %s: %w", l.name, what, err)
	}
	return nil
}

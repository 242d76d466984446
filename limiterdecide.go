package penstock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/storage"
)

// A limiterWork is the memory for one decision, reused for the next.
type limiterWork struct {
	ticket  storage.Ticket
	group   [1]storage.Group
	charges []algorithm.Charge
	outcome storage.Outcome
	verdict Verdict
}

func newLimiterWork(meters []*algorithm.Meter) *limiterWork {
	w := &limiterWork{charges: make([]algorithm.Charge, len(meters))}
	for i, m := range meters {
		w.charges[i].Meter = m
	}
	return w
}

func (l *Limiter) work() *limiterWork { return l.works.Get().(*limiterWork) }

// prepare fills in the ticket. The limits are one group: all of them are charged, or none.
func (w *limiterWork) prepare(l *Limiter, key string, c *Call) {
	for i := range w.charges {
		w.charges[i].Cost = c.Cost
	}
	w.group[0] = storage.Group{Subject: l.subjects.Subject(key), Charges: w.charges, Returnable: l.isReturnable}
	w.ticket = storage.Ticket{MaxDelay: c.MaxDelay, Groups: w.group[:]}
	if c.Cost > 0 && c.Reserve {
		w.group[0].Reserve = cmp.Or(c.TTL, l.reserve)
	}
	if c.Cost > 0 && (c.Reserve || l.takesPermits) {
		w.ticket.Nonce = newNonce()
	}
}

// Decide decides a request by its [KeyAttribute], Cost, MaxDelay, Reserve and TTL. A request without that
// attribute is invalid. Rule and policies in the verdict are the limiter's name.
func (l *Limiter) Decide(ctx context.Context, c *Call, v *Verdict) error {
	key, ok := c.Attribute(KeyAttribute)
	if !ok {
		v.Reset()
		return fmt.Errorf("limiter %q: %w call: the attribute %q of the key is missing", l.name, ErrInvalid, KeyAttribute)
	}
	w := l.work()
	defer l.works.Put(w)
	return l.decide(ctx, w, key, c, v)
}

// CheckAttributes implements attribute.Checker.
func (l *Limiter) CheckAttributes(_ string, check func(attribute string, from *attribute.Source) error) error {
	return l.wrap("check attributes", check(KeyAttribute, nil))
}

func (l *Limiter) decide(ctx context.Context, w *limiterWork, key string, c *Call, v *Verdict) error {
	v.Reset()
	if l.single != nil && !(c.Reserve && c.Cost > 0) {
		return l.decideSingle(ctx, key, c, v)
	}
	w.prepare(l, key, c)
	if err := l.store.Take(ctx, &w.ticket, &w.outcome); err != nil {
		if !errors.Is(err, ErrInvalid) {
			l.withoutStore(ctx, v)
		}
		return l.wrap("take", err)
	}
	out := &w.outcome
	v.settle(out.Allowed, out.Now)
	if out.Groups[0].Leased {
		v.Quality = QualityLeased
	}
	for i := range out.Decisions {
		w.charges[i].Correct(&out.Decisions[i])
	}
	l.report(v, l.meters, out.Decisions)
	if nonce := out.Groups[0].Nonce; nonce != 0 {
		v.Reservation = l.seal.reservation(&w.group[0], nonce)
		v.ReservedFor = l.openFor(w.group[0].Reserve)
	}
	return nil
}

// takeTicket is Take with a ticket. It does not list the limits, as decide does.
func (l *Limiter) takeTicket(ctx context.Context, key string, cost int64) (Decision, error) {
	if l.takesPermits && cost > 0 {
		return Decision{}, fmt.Errorf("limiter %q: %w: a concurrency limit needs Reserve and Release: this permit could not be released", l.name, ErrInvalid)
	}
	w := l.work()
	defer l.works.Put(w)
	w.prepare(l, key, &Call{Cost: cost})
	if err := l.store.Take(ctx, &w.ticket, &w.outcome); err != nil {
		return l.failed(ctx, err)
	}
	v, out := &w.verdict, &w.outcome
	v.Reset()
	v.settle(out.Allowed, out.Now)
	for i := range out.Decisions {
		w.charges[i].Correct(&out.Decisions[i])
		v.include(l.name, &out.Decisions[i])
	}
	return v.decision(), nil
}

// failed is the decision if the store could not decide.
func (l *Limiter) failed(ctx context.Context, err error) (Decision, error) {
	var v Verdict
	if !errors.Is(err, ErrInvalid) {
		l.withoutStore(ctx, &v)
	}
	return v.decision(), l.wrap("take", err)
}

func (l *Limiter) decideSingle(ctx context.Context, key string, c *Call, v *Verdict) error {
	st, r, err := l.single.Take(ctx, 0, key, c.Cost, c.MaxDelay)
	if err != nil {
		if !errors.Is(err, ErrInvalid) {
			l.withoutStore(ctx, v)
		}
		return l.wrap("take", err)
	}
	var d Decision
	charge := algorithm.Charge{Meter: l.meters[0], Cost: c.Cost}
	charge.Meter.ReportFixed(&d, st, r, c.Cost, c.MaxDelay)
	charge.Correct(&d)
	v.settle(d.Allowed, r.Now)
	l.report(v, l.meters, []Decision{d})
	return nil
}

// settle fills in whether the request is allowed.
func (v *Verdict) settle(allowed bool, now Instant) {
	v.Allowed, v.Now, v.Reason = allowed, now, ReasonOK
	if !allowed {
		v.Reason = ReasonOverLimit
	}
}

// withoutStore fills in the verdict of a request that the store cannot decide. A request that was cancelled is
// denied even under [FailOpen]: a client must not pass by disconnecting early.
func (l *Limiter) withoutStore(ctx context.Context, v *Verdict) {
	v.Reason, v.Rule, v.Quality = ReasonStoreError, l.name, QualityClosed
	if l.failOpen && !errors.Is(ctx.Err(), context.Canceled) {
		v.Allowed, v.Quality = true, QualityOpen
	}
	v.Decision.Allowed = v.Allowed
}

// report adds the decision of each meter. The meters are some or all of the limiter's.
func (l *Limiter) report(v *Verdict, meters []*algorithm.Meter, decisions []Decision) {
	at := 0
	for i, m := range l.meters {
		if at < len(meters) && meters[at] == m {
			v.Add(LimitVerdict{
				Rule: l.name, Policy: l.policies[i],
				Algorithm: m.Algorithm(), Refill: m.Limit().Refill, Count: m.PerWindow(), Window: m.WindowAt(v.Now), Decision: decisions[at],
			})
			at++
		}
	}
}

// openFor returns how long the reservation and all permits stay open.
func (l *Limiter) openFor(reserved time.Duration) time.Duration {
	for _, m := range l.meters {
		if ttl := m.Limit().Window; m.Kind == algorithm.KindLeases && (reserved == 0 || ttl < reserved) {
			reserved = ttl
		}
	}
	return reserved
}

// decision returns the verdict as one decision.
func (v *Verdict) decision() Decision {
	d := v.Decision
	d.Allowed, d.Delay = v.Allowed, v.Delay
	return d
}

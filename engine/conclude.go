package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// Conclude settles, releases or renews what the request of a verdict has reserved. If several rules reserved
// something, each is concluded by itself; after an error, or a denial, the conclusion may be sent again. The
// verdict names the reservation if it is still open. If the store does not confirm a settlement or release,
// Conclude returns an error, and the engine keeps sending it.
func (e *Engine) Conclude(ctx context.Context, c *penstock.Conclusion, v *penstock.Verdict) error {
	s := e.rules.Load()
	v.Reset()
	v.RulesVersion, v.Now = s.Version, e.instant()
	all, flags, err := parseReservation(s, c.Reservation)
	if err := errors.Join(validateConclusion(c), err); err != nil {
		return err
	}
	store := e.store
	if flags&reservationLocal != 0 {
		store, v.Quality = e.local, penstock.QualityLocal
	}
	settler, ok := store.(storage.Settler)
	if !ok {
		return fmt.Errorf("%v a reservation: %w: the store of the reservation cannot do this, or no longer exists", c.Verb, penstock.ErrInvalid)
	}
	v.Allowed = true
	if c.Verb == penstock.Renew && c.Cost > 0 {
		if err := e.extend(ctx, c, all, flags, v); err != nil || !v.Allowed {
			v.Reservation = c.Reservation
			return err
		}
	}
	var errs []error
	for i := range all {
		all[i].booked = flags&reservationBooked != 0
		if err := e.conclude(ctx, settler, c, &all[i], v); err != nil {
			errs = append(errs, fmt.Errorf("%v under rule %q: %w", c.Verb, all[i].rule.Name, err))
		}
	}
	switch {
	case len(errs) > 0:
		v.Allowed = false
	case !v.Allowed || c.Verb == penstock.Renew:
		v.Reservation = c.Reservation
	}
	return errors.Join(errs...)
}

// conclude sends the settlement of one rule and adds its outcome to the verdict.
func (e *Engine) conclude(ctx context.Context, settler storage.Settler, c *penstock.Conclusion, t *ruleCharge, v *penstock.Verdict) error {
	s, policies, err := t.settlement(c)
	if err != nil {
		e.failed(t.snapshot, &RuleFailure{t.rule, err})
	}
	if len(s.Charges) == 0 {
		return nil // the estimate stays
	}
	var echoed *rules.Rule
	if v.Quality == penstock.QualityExact {
		echoed = t.rule
	}
	var out storage.SettleOutcome
	if err := e.settle(ctx, settler, &s, &out); err != nil {
		if errors.Is(err, penstock.ErrInvalid) && t.isShadow() {
			return nil
		}
		if errors.Is(err, penstock.ErrUnavailable) && c.Verb != penstock.Renew {
			e.settleLater(settler, &s, echoed)
		}
		return err
	}
	e.echoSettled(echoed, &s, &out)
	if t.booked && c.Verb == penstock.Settle && out.Allowed && !out.Again && !t.isShadow() {
		for _, charge := range s.Charges {
			e.books.add(t.subject, charge.Meter, charge.Cost, out.Now)
		}
	}
	t.report(v, &s, &out, policies)
	return nil
}

// isShadow reports whether the rule is a shadow rule, which does not affect a verdict.
func (t *ruleCharge) isShadow() bool { return t.rule.Mode == rules.Shadow }

// settlement returns what a conclusion asks of the store, and the policy of each charge. If the cost is still
// unknown, the estimate stays: only permits are settled then. The error is that of a condition about the response:
// the settlement is then made as if the response were unknown.
func (t *ruleCharge) settlement(c *penstock.Conclusion) (s storage.Settlement, policies []string, err error) {
	cost, known := settledCost(t.rule, c)
	s = storage.Settlement{Subject: t.subject, Nonce: t.nonce, Verb: c.Verb, Overage: overageOf(t.rule)}
	if t.rule.Outcome != nil && t.cost > 0 && c.Verb == penstock.Settle && c.Response != nil {
		var strikes bool
		if cost, strikes, err = t.outcome(c.Response, cost, known); strikes {
			s.Strike = t.rule.Penalty
		}
		known = true
	}
	for i, m := range t.limits {
		if known || c.Verb != penstock.Settle || m.Kind == algorithm.KindLeases {
			s.Charges = append(s.Charges, algorithm.Charge{Meter: m, Cost: cost})
			policies = append(policies, t.policies[i])
		}
	}
	if c.Verb == penstock.Renew {
		s.TTL = cmp.Or(c.TTL, t.rule.Reserve, settleWithin)
	}
	return s, policies, err
}

// outcome returns what a request costs in the end, according to its response, and whether it is a strike. The charge
// is the cost that the response contains, or else what was reserved.
func (t *ruleCharge) outcome(r *penstock.Response, cost int64, known bool) (_ int64, strikes bool, err error) {
	if !known {
		cost = t.cost
	}
	charges, err := t.rule.Outcome.Charges(r)
	if !charges {
		cost = 0
	}
	strikes, failed := t.rule.Outcome.Strikes(r)
	return cost, strikes, errors.Join(err, failed)
}

// report adds the store's answer to the verdict.
func (t *ruleCharge) report(v *penstock.Verdict, s *storage.Settlement, out *storage.SettleOutcome, policies []string) {
	v.Now = out.Now
	if s.Verb == penstock.Renew {
		v.ReservedFor = shorter(v.ReservedFor, renewedFor(s, out))
	}
	if !out.Allowed && !t.isShadow() {
		v.Allowed, v.Reason = false, penstock.ReasonOverLimit
	}
	for i := range out.Decisions {
		d := &out.Decisions[i]
		if out.BannedUntil != 0 {
			d.Remaining, d.RetryAfter = 0, max(d.RetryAfter, out.BannedUntil.Sub(out.Now))
		}
		if add(v, t.rule, policies[i], s.Charges[i].Meter, d) && out.BannedUntil != 0 {
			v.Reason, v.BannedUntil = penstock.ReasonBanned, out.BannedUntil
		}
		v.Limits[len(v.Limits)-1].Banned = out.BannedUntil != 0
	}
}

// renewedFor returns how long everything that was renewed stays reserved.
func renewedFor(s *storage.Settlement, out *storage.SettleOutcome) time.Duration {
	ttl := out.Until.Sub(out.Now)
	for _, c := range s.Charges {
		if c.Meter.Kind == algorithm.KindLeases {
			ttl = shorter(ttl, permitTTL(c.Meter))
		}
	}
	return ttl
}

// releaseShadowPermits releases the permits that shadow rules have taken for a request that was denied and will never
// run, and the charges that its response would have decided. Their other charges stay.
func (e *Engine) releaseShadowPermits(ctx context.Context, w *workspace, store penstock.Store) {
	settler, ok := store.(storage.Settler)
	if !ok {
		return
	}
	for i := range w.turn.Outcome.Groups {
		g := &w.turn.Outcome.Groups[i]
		if g.Nonce == 0 {
			continue
		}
		s := storage.Settlement{Subject: w.turn.Ticket.Groups[i].Subject, Nonce: g.Nonce, Verb: penstock.Release}
		whole := w.asked[i].rule.Outcome != nil && !g.Replay
		for _, c := range w.turn.Ticket.Groups[i].Charges {
			if whole || c.Meter.Kind == algorithm.KindLeases {
				s.Charges = append(s.Charges, c)
			}
		}
		if len(s.Charges) > 0 {
			var out storage.SettleOutcome
			if err := e.settle(ctx, settler, &s, &out); errors.Is(err, penstock.ErrUnavailable) {
				e.settleLater(settler, &s, nil)
			}
		}
	}
}

// settle asks a store, and turns a panic into an error.
func (e *Engine) settle(ctx context.Context, settler storage.Settler, s *storage.Settlement, out *storage.SettleOutcome) (err error) {
	defer recoverPanic(&err)
	if e.now != nil {
		s.Now = e.now()
	}
	return settler.Settle(ctx, s, out)
}

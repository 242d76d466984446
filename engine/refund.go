package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// maxReturn is how long after a named request its charges can be given back. Stores remember each request
// that long.
const maxReturn = time.Hour

// Refund gives back what a request was charged under the rules that apply to it. If the request is named,
// that is what the request of the same ID was charged, once. Otherwise it is the cost of this request, taken
// from what was charged in the current windows or is missing from buckets, and never more than that; logs,
// leaky buckets and permits cannot be refunded that way. The verdict holds the limits after the refund.
// Observers do not see it.
func (e *Engine) Refund(ctx context.Context, c *penstock.Call, v *penstock.Verdict) error {
	w := e.works.Get().(*workspace)
	defer e.works.Put(w)
	if settled, err := e.prepare(e.rules.Load(), c, v, w); settled {
		return err
	}
	return e.refund(ctx, c, v, w)
}

// RefundPart is Refund for a part of a request, with the rule that was found for it.
func (e *Engine) RefundPart(ctx context.Context, s *rules.Snapshot, part *Part) {
	w := e.works.Get().(*workspace)
	defer e.works.Put(w)
	if !e.preparePart(s, part, w) {
		part.Err = e.refund(ctx, &part.Call, part.Verdict, w)
	}
}

func (e *Engine) refund(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *workspace) error {
	v.Allowed, v.Reason, v.Now = true, penstock.ReasonNoRule, e.instant()
	if !w.refunds {
		return fmt.Errorf("%w refund: this engine allows none", penstock.ErrInvalid)
	}
	var errs []error
	for i := range w.turn.Ticket.Groups {
		if err := e.refundGroup(ctx, c, v, w, i); err != nil {
			errs = append(errs, fmt.Errorf("refund under rule %q: %w", w.asked[i].rule.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Engine) refundGroup(ctx context.Context, c *penstock.Call, v *penstock.Verdict, w *workspace, i int) error {
	g, a := &w.turn.Ticket.Groups[i], &w.asked[i]
	s := storage.Settlement{Subject: g.Subject, Verb: storage.Refund}
	if w.isNamed(c) && c.Cost > 0 { // a response may say that nothing is given back
		s.Verb, s.Nonce = penstock.Release, w.nonce(c)
	}
	var policies []string
	for k, charge := range g.Charges {
		if m := charge.Meter; m.Returns() == nil && (s.Verb == penstock.Release || m.CanRefund()) {
			s.Charges = append(s.Charges, algorithm.Charge{Meter: m, Cost: charge.Cost})
			policies = append(policies, a.limits.Policies[k])
		}
	}
	if len(s.Charges) == 0 {
		return nil
	}
	var out storage.SettleOutcome
	err := e.giveBack(ctx, a.rule, &s, &out)
	if errors.Is(err, penstock.ErrNoReservation) || errors.Is(err, penstock.ErrClosed) {
		return nil // it was denied, is older than maxReturn, or has been given back
	}
	if err != nil {
		return err
	}
	v.Now, v.Reason = out.Now, penstock.ReasonOK
	for k := range out.Decisions {
		add(v, a.rule, policies[k], s.Charges[k].Meter, &out.Decisions[k])
	}
	return nil
}

// giveBack asks the shared store. Under a rule that this node counts itself, it also asks the local store,
// except for a release that the shared store has answered. A release that the shared store did not confirm is
// sent again. A refund is not, because it could take effect twice: the charge stays.
func (e *Engine) giveBack(ctx context.Context, r *rules.Rule, s *storage.Settlement, out *storage.SettleOutcome) error {
	shared, ok := e.store.(storage.Settler)
	if !ok {
		return fmt.Errorf("%w: %T cannot", penstock.ErrInvalid, e.store)
	}
	err := e.settle(ctx, shared, s, out)
	isDown := errors.Is(err, penstock.ErrUnavailable)
	if isDown && s.Verb == penstock.Release {
		e.settleLater(shared, s, nil)
	}
	local, ok := e.local.(storage.Settler)
	if !ok || !countsHere(r) || !isDown && s.Verb == penstock.Release {
		return err
	}
	var counted storage.SettleOutcome
	if here := e.settle(ctx, local, s, &counted); isDown && here == nil {
		*out, err = counted, nil
	}
	return err
}

// isNamed reports whether what the request takes can be given back by its ID.
func (w *workspace) isNamed(c *penstock.Call) bool { return w.refunds && c.Named && c.ID != "" }

// nonce names what a request takes: derived from its ID if that can be used to give it back.
func (w *workspace) nonce(c *penstock.Call) uint64 {
	if w.isNamed(c) {
		id := w.snapshot.Hasher.Call(c.ID)
		return binary.BigEndian.Uint64(id[:8]) | 1
	}
	return rand.Uint64() | 1
}

// returnableFor returns how long a charge of the limits is remembered so that it can be given back: until it
// no longer counts, at most maxReturn. It is 0 if the limits cannot give back, or are only concurrency
// limits, whose permits need no reservation.
func returnableFor(limits []*algorithm.Meter) time.Duration {
	longest := time.Duration(0)
	for _, m := range limits {
		if m.Returns() != nil {
			return 0
		}
		if m.Kind != algorithm.KindLeases {
			longest = max(longest, min(time.Duration(m.Life)*time.Microsecond, maxReturn))
		}
	}
	if longest > 0 {
		longest = max(longest, algorithm.MinWindow)
	}
	return longest
}

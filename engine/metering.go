package engine

import (
	"context"
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/usage"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// metering returns what the rules that reserved something take from the response's body, or nil.
func (w *workspace) metering() *penstock.Metering {
	var m *penstock.Metering
	for i := range w.asked {
		r, group, out := w.asked[i].rule, &w.turn.Ticket.Groups[i], &w.turn.Outcome.Groups[i]
		if r.Cost.ResponseJSON == "" || out.Nonce == 0 || out.Replay || group.Reserve == 0 {
			continue
		}
		if m == nil {
			m = new(penstock.Metering)
		}
		addMetering(m, r, group.Charges[0].Cost)
	}
	return m
}

func addMetering(m *penstock.Metering, r *rules.Rule, reserved int64) {
	field, cuts := r.Cost.ResponseJSON, r.Cost.Cut && r.Mode != rules.Shadow
	m.Fields = append(m.Fields, field)
	switch {
	case cuts && m.Cut == "":
		m.Cut, m.Reserved = field, reserved
	case cuts:
		m.Reserved = min(m.Reserved, reserved)
		if m.Cut != field {
			m.Cut = usage.TotalTokens // the largest, so that no rule is exceeded
		}
	case m.Cut == "":
		m.Reserved = max(m.Reserved, reserved)
	}
}

// extend charges more than was reserved to the rules that cut, together or not at all. What it charges is spent: the
// settlement leaves it out. A store that does not answer allows it: the response is under way, and what it costs is
// settled when the store answers again.
func (e *Engine) extend(ctx context.Context, c *penstock.Conclusion, all []ruleCharge, flags byte, v *penstock.Verdict) error {
	var turn storage.BatchItem
	if e.now != nil {
		turn.Ticket.Now = e.now()
	}
	for i := range all {
		t := &all[i]
		if !t.rule.Cost.Cut || t.isShadow() {
			continue
		}
		g := storage.Group{Subject: t.subject, Returnable: true}
		for _, m := range t.limits {
			if m.Kind != algorithm.KindLeases {
				g.Charges = append(g.Charges, algorithm.Charge{Meter: m, Cost: c.Cost})
			}
		}
		if len(g.Charges) > 0 {
			turn.Ticket.Groups = append(turn.Ticket.Groups, g)
		}
	}
	if len(turn.Ticket.Groups) == 0 {
		return nil
	}
	if err := e.askMore(ctx, &turn, flags&reservationLocal != 0); err != nil {
		return fmt.Errorf("charge %d more for a response: %w", c.Cost, err)
	}
	v.Now = turn.Outcome.Now
	if !turn.Outcome.Allowed {
		v.Allowed, v.Reason = false, penstock.ReasonOverLimit
		return nil
	}
	if flags&reservationBooked != 0 {
		e.bookMore(&turn)
	}
	return nil
}

// askMore asks the store that took the reservation.
func (e *Engine) askMore(ctx context.Context, t *storage.BatchItem, local bool) error {
	if local {
		return take(ctx, e.local, t)
	}
	return e.takeShared(ctx, t)
}

// bookMore notes what the local store was charged, for the shared one.
func (e *Engine) bookMore(t *storage.BatchItem) {
	for i := range t.Ticket.Groups {
		g := &t.Ticket.Groups[i]
		for _, charge := range g.Charges {
			e.books.add(g.Subject, charge.Meter, charge.Cost, t.Outcome.Now)
		}
	}
}

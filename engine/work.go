package engine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/rules"
)

// settleWithin is how long the response of a call may take whose cost comes with it, under a rule
// that does not say.
const settleWithin = 5 * time.Minute

// A work is what deciding one call takes, kept for the next.
type work struct {
	snapshot *rules.Snapshot
	matched  rules.Match

	turn    penstock.Turn
	ticket  *penstock.Ticket  // of turn, or of one turn of a batch
	outcome *penstock.Outcome // likewise

	asked   []asked           // one for each group of the ticket
	charges []penstock.Charge // of all groups

	failures    []RuleFailure
	refused     *rules.Rule // failed, and its failure policy denies
	beyond      int
	observation Observation
}

// asked is what a group of the ticket was made from.
type asked struct {
	rule     *rules.Rule
	override int
	policies []string
}

func (w *work) reset(s *rules.Snapshot) {
	w.on(&w.turn)
	w.snapshot = s
	w.asked, w.charges, w.failures = w.asked[:0], w.charges[:0], w.failures[:0]
	w.refused, w.beyond = nil, 0
}

// on lets the work be done on a turn.
func (w *work) on(t *penstock.Turn) {
	w.ticket, w.outcome = &t.Ticket, &t.Outcome
	*w.ticket = penstock.Ticket{Groups: w.ticket.Groups[:0]}
}

func (w *work) match(c *penstock.Call, now penstock.Instant) {
	w.snapshot.Match(c, now, &w.matched)
	for _, f := range w.matched.Failed {
		w.failed(f.Rule, f.Err)
	}
}

// failed notes that a rule could not be evaluated. It does not apply; if its failure policy is to
// deny, the call is denied.
func (w *work) failed(r *rules.Rule, err error) {
	w.failures = append(w.failures, RuleFailure{r, err})
	if r.OnStoreError == rules.FailDeny && r.Mode == rules.Enforce {
		w.refused = r
	}
}

// write makes the ticket, with one group for each rule that applies.
func (w *work) write(c *penstock.Call) {
	w.ticket.MaxDelay = c.MaxDelay
	for i := range w.matched.Rules {
		m := &w.matched.Rules[i]
		if len(w.ticket.Groups) == penstock.MaxGroups {
			w.beyond++
			continue
		}
		charges := len(w.charges)
		if err := w.ask(c, m); err != nil {
			w.charges = w.charges[:charges]
			w.failed(m.Rule, err)
		}
	}
	// Groups are parts of one slice, which may have moved as it grew.
	charges := w.charges
	for i := range w.ticket.Groups {
		g := &w.ticket.Groups[i]
		g.Charges, charges = charges[:len(g.Charges):len(g.Charges)], charges[len(g.Charges):]
	}
}

// ask adds a rule's group to the ticket. A panic becomes an error, and the ticket is as before.
func (w *work) ask(c *penstock.Call, m *rules.Matched) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("evaluate rule %q: panic: %v", m.Rule.Name, p)
		}
	}()
	r := m.Rule
	limits, policies, dedup := r.Limits, r.Policies, r.Dedup
	if m.Override != rules.NoOverride {
		o := &r.Overrides[m.Override]
		if o.Unlimited {
			return nil
		}
		limits, policies, dedup = o.Limits, o.Policies, o.Dedup
	}
	cost := costOf(r, c)
	from := len(w.charges)
	for _, meter := range limits {
		w.charges = append(w.charges, penstock.Charge{Meter: meter, Cost: cost})
		_ = meter.Kind // a rule without its meters fails here, by itself
	}
	g := penstock.Group{
		Subject: r.Subjects.Subject(m.Key...),
		Charges: w.charges[from:],
		Penalty: r.Penalty,
		Alone:   r.Mode == rules.Shadow,
		Reserve: reserveFor(r, c),
	}
	if dedup != nil {
		g.Dedup, g.Call = dedup, w.callID(r, c)
	}
	w.ticket.Groups = append(w.ticket.Groups, g)
	w.asked = append(w.asked, asked{r, m.Override, policies})
	return nil
}

func (w *work) callID(r *rules.Rule, c *penstock.Call) penstock.CallID {
	id := c.ID
	if r.DedupAttribute != "" {
		id, _ = c.Attribute(r.DedupAttribute)
	}
	if id == "" {
		return penstock.CallID{}
	}
	return w.snapshot.Hasher.Call(id)
}

// costOf returns what a call costs under a rule when it is decided: an estimate if the cost comes
// with the response.
func costOf(r *rules.Rule, c *penstock.Call) int64 {
	cost := &r.Cost
	switch {
	case c.Cost == 0:
		return 0
	case cost.Fixed != 0:
		return cost.Fixed
	case cost.Attribute != "":
		text, _ := c.Attribute(cost.Attribute)
		return costFrom(cost, text)
	case cost.Afterwards():
		return cost.Default
	}
	return c.Cost
}

// costFrom reads a cost that somebody else wrote.
func costFrom(cost *rules.Cost, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return cost.Default
	}
	return min(n, cost.Max)
}

func reserveFor(r *rules.Rule, c *penstock.Call) time.Duration {
	switch {
	case c.Cost == 0:
		return 0
	case c.Reserve && r.Reserve != 0 && c.TTL != 0:
		return c.TTL
	case (c.Reserve || r.Cost.Afterwards()) && r.Reserve != 0:
		return r.Reserve
	case r.Cost.Afterwards():
		return settleWithin
	}
	return 0
}

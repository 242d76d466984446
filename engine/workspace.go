package engine

import (
	"fmt"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/storage"
)

// A workspace is the memory for deciding one request, reused for the next.
type workspace struct {
	snapshot *rules.Snapshot
	matched  rules.Match

	turn    storage.BatchItem
	asked   []groupOrigin      // one for each group of the ticket
	charges []algorithm.Charge // of all groups

	block       *blocklist.Block // denies the request; nil: none
	data        *rules.Data      // the engine's
	failures    []RuleFailure
	fallbacks   []rules.Fallback
	refused     *rules.Rule // it applies and failed, and its failure policy denies
	beyond      int
	cancelled   bool // its caller left before it was decided
	uncharged   bool // the shared store has certainly not charged the request
	refunds     bool // charges may be given back, according to the engine's options
	observation Observation
	echo        localUpdate
}

// groupOrigin is what a group of the ticket was built from.
type groupOrigin struct {
	rule     *rules.Rule
	override int          // or rules.NoOverride
	limits   rules.Limits // in full, even if this node enforces only a part of them
}

func (a *groupOrigin) isLive() bool { return a.rule.Mode != rules.Shadow }

func (w *workspace) reset(s *rules.Snapshot) {
	w.snapshot = s
	w.matched.Rules = w.matched.Rules[:0]
	w.turn.Ticket, w.turn.Err = storage.Ticket{Groups: w.turn.Ticket.Groups[:0]}, nil
	w.asked, w.charges, w.failures, w.fallbacks = w.asked[:0], w.charges[:0], w.failures[:0], w.fallbacks[:0]
	w.block, w.refused, w.beyond, w.uncharged, w.cancelled = nil, nil, 0, false, false
}

// match finds the rules that apply, and notes those whose expressions failed.
func (w *workspace) match(c *penstock.Call, now penstock.Instant) {
	w.snapshot.Match(c, now, &w.matched)
	for _, f := range w.matched.Failed {
		w.failures = append(w.failures, RuleFailure(f))
	}
}

// write builds the ticket, with one group for each rule that applies.
func (w *workspace) write(c *penstock.Call) {
	t := &w.turn.Ticket
	t.MaxDelay = c.MaxDelay
	shadows := w.roomForShadows()
	for i := range w.matched.Rules {
		m := &w.matched.Rules[i]
		if m.Rule.Mode == rules.Shadow {
			shadows--
		}
		if len(t.Groups) == storage.MaxGroups || m.Rule.Mode == rules.Shadow && shadows < 0 {
			w.beyond++
			continue
		}
		if err := w.addGroup(c, m); err != nil {
			w.failures = append(w.failures, RuleFailure{m.Rule, err})
			if m.Rule.OnStoreError == rules.FailDeny && m.Rule.Mode != rules.Shadow {
				w.refused = m.Rule
			}
		}
	}
}

// roomForShadows returns how many shadow rules fit into the ticket besides the live rules.
func (w *workspace) roomForShadows() int {
	room := storage.MaxGroups
	if len(w.matched.Rules) <= room {
		return room
	}
	for i := range w.matched.Rules {
		if w.matched.Rules[i].Rule.Mode != rules.Shadow {
			room--
		}
	}
	return room
}

// addGroup adds a rule's group to the ticket. If the rule cannot be evaluated, or panics, it returns an error and
// leaves the ticket unchanged.
func (w *workspace) addGroup(c *penstock.Call, m *rules.MatchedRule) (err error) {
	from := len(w.charges)
	defer func() {
		if p := recover(); p != nil {
			w.charges = w.charges[:from]
			err = fmt.Errorf("evaluate rule %q: %w", m.Rule.Name, newPanicError(p))
		}
	}()
	r := m.Rule
	if m.Override != rules.NoOverride && r.Overrides[m.Override].Unlimited {
		return nil
	}
	limits := r.LimitsFor(m.Override, c, m.Key, w.data, &w.fallbacks)
	cost, reserve := costOf(m, c), reserveFor(r, c)
	refundOnly := reserve == 0 && cost > 0 && w.isNamed(c)
	if refundOnly {
		reserve = returnableFor(limits.Meters)
	}
	for _, meter := range limits.Meters {
		if meter.Kind == algorithm.KindLeases || reserve != 0 {
			w.turn.Ticket.Nonce = w.nonce(c)
		}
		w.charges = append(w.charges, algorithm.Charge{Meter: meter, Cost: cost})
	}
	g := storage.Group{
		Subject: r.Subjects.Subject(m.Key...),
		Charges: w.charges[from:len(w.charges):len(w.charges)],
		Penalty: r.Penalty,
		Alone:   r.Mode == rules.Shadow,
		Reserve: reserve,
		Leased:  r.Leased,

		RefundOnly: refundOnly,
		Returnable: w.refunds || r.Reserve != 0 || r.Corrected(),
	}
	if limits.Dedup != nil {
		g.Dedup, g.Call, g.MaxCost = limits.Dedup, w.callID(r, c), r.Cost.Most()
	}
	w.turn.Ticket.Groups = append(w.turn.Ticket.Groups, g)
	w.asked = append(w.asked, groupOrigin{r, m.Override, limits})
	return nil
}

func (w *workspace) callID(r *rules.Rule, c *penstock.Call) storage.CallID {
	id := c.ID
	if r.DedupAttribute != "" {
		id, _ = c.Attribute(r.DedupAttribute)
	}
	if id == "" {
		return storage.CallID{}
	}
	return w.snapshot.Hasher.Call(id)
}

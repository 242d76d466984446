package denycache

import (
	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// Larger tickets always go to the store, so that answering does not allocate.
const (
	maxGroups  = 8
	maxCharges = 16
)

// answerable reports whether the store need not see the denial of a ticket, if all its groups with guards are
// banned. A limit that counts all requests misses this one, which does not matter because it is already
// exceeded.
func answerable(t *storage.Ticket) bool {
	charges := 0
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Guarded() && (g.Penalty == nil || g.Alone) {
			return false
		}
		for j := range g.Charges {
			m := g.Charges[j].Meter
			if m == nil || m.Kind == algorithm.KindLeases || m.CountDenied && !g.Guarded() || g.Alone && !m.CountAll {
				return false
			}
		}
		charges += len(g.Charges)
	}
	return len(t.Groups) <= maxGroups && charges <= maxCharges
}

// learnable reports whether further answers can be derived from this one.
func learnable(t *storage.Ticket, out *storage.Outcome) bool {
	if len(out.States) != len(out.Decisions) || !isFinal(t, out, out.Now) {
		return false
	}
	at := 0
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Guarded() && out.Groups[i].BannedUntil <= out.Now {
			return false
		}
		for j := range g.Charges {
			c := &g.Charges[j]
			if c.Meter.Kind == algorithm.KindLog && !lacksOne(c, out.States[at]) {
				return false
			}
			at++
		}
	}
	return true
}

// isFinal reports whether only an operator can turn the answer into a pass until after an instant: every group
// that is alone is denied, and so is one of the others, if there are any.
func isFinal(t *storage.Ticket, out *storage.Outcome, beyond penstock.Instant) bool {
	others, denied := false, false
	for i := range out.Groups {
		alone, isFirm := t.Groups[i].Alone, out.Groups[i].FirmUntil > beyond
		if alone && !isFirm {
			return false
		}
		others, denied = others || !alone, denied || !alone && isFirm
	}
	return denied || !others
}

// lacksOne reports whether a log denies because it lacks a single unit: such a log stays unchanged until its
// oldest entry leaves, which is the one that the state names.
func lacksOne(c *algorithm.Charge, s algorithm.State) bool {
	return s.Used+c.Need()-c.Meter.Capacity == 1
}

// learn keeps the states of an answer, except for subjects that were forgotten since the store was asked, and
// except for peeks: for a state that a wrong clock wrote, a peek returns a repaired one that the store does
// not keep. A request has to reach the store to repair it.
func (c *Cache) learn(t *storage.Ticket, out *storage.Outcome, when answerTime, before *[maxGroups]uint64) {
	states := out.States
	for i := range t.Groups {
		g := &t.Groups[i]
		s := c.table.of(&g.Subject)
		s.mu.Lock()
		if s.generation == before[i] && g.Spends() {
			if g.Guarded() {
				ban := algorithm.State{At: out.Groups[i].BannedUntil, Used: out.Groups[i].Bans}
				s.put(entry{banOf(t, g), when, ban})
			}
			for j := range g.Charges {
				s.put(entry{keyOf(t, g, g.Charges[j].Meter), when, states[j]})
			}
		}
		s.mu.Unlock()
		states = states[len(g.Charges):]
	}
}

// A memory is what is known about a ticket.
type memory struct {
	found   [maxCharges]storage.ChargeResult
	charges int
	bans    [maxGroups]algorithm.State
	guarded bool

	// The store's clock is somewhere from now to latest.
	now, latest penstock.Instant
}

// answer decides a ticket from the cache, if the result is certain. If it is not, the outcome is meaningless.
func (c *Cache) answer(t *storage.Ticket, out *storage.Outcome) bool {
	var m memory
	if !c.recall(t, &m) || !m.weigh(t) {
		return false
	}
	var room [maxGroups]storage.GuardResult
	sights := m.guardResults(t, room[:])
	out.Settle(t, m.now, m.found[:m.charges], sights)
	for i := range sights {
		out.Groups[i].Bans = m.bans[i].Used
	}
	return isFinal(t, out, m.latest)
}

// guardResults returns what a store would have found for the guards: only bans. They do not include the number of
// bans.
func (m *memory) guardResults(t *storage.Ticket, room []storage.GuardResult) []storage.GuardResult {
	if !m.guarded {
		return nil
	}
	sights := room[:len(t.Groups)]
	for i := range sights {
		if p := t.Groups[i].Penalty; p != nil {
			sights[i].Banned = true
			sights[i].Penalty = p.Ban(algorithm.PenaltyState{}, m.now, int64(m.bans[i].At-m.now))
		}
	}
	return sights
}

// recall fetches what is known of every group, and reports whether that is complete.
func (c *Cache) recall(t *storage.Ticket, m *memory) bool {
	clock := c.clock(t)
	for i := range t.Groups {
		g := &t.Groups[i]
		s := c.table.of(&g.Subject)
		s.mu.Lock()
		known := m.recall(s, t, i, clock)
		s.mu.Unlock()
		if !known {
			return false
		}
	}
	return true
}

func (m *memory) recall(s *set, t *storage.Ticket, i int, clock penstock.Instant) bool {
	g := &t.Groups[i]
	if g.Guarded() {
		e := s.find(banOf(t, g))
		if !m.isRecent(e, clock, longest) {
			return false
		}
		m.bans[i], m.guarded = e.state, true
	}
	for j := range g.Charges {
		e, most := s.find(keyOf(t, g, g.Charges[j].Meter)), longest
		if g.Charges[j].Meter.CountAll {
			most = longestOver
		}
		if !m.isRecent(e, clock, most) {
			return false
		}
		m.found[m.charges].State = e.state
		m.charges++
	}
	return true
}

// isRecent reports whether an entry is recent enough, and updates what is known of the store's clock.
func (m *memory) isRecent(e *entry, clock, most penstock.Instant) bool {
	if e == nil || clock < e.heard || clock >= e.sent+most {
		return false
	}
	m.now = max(m.now, e.at+clock-e.heard)
	m.latest = max(m.latest, e.at+clock-e.sent)
	return true
}

// weigh brings the states up to now, and reports whether that is possible.
func (m *memory) weigh(t *storage.Ticket) bool {
	at := 0
	for i := range t.Groups {
		g := &t.Groups[i]
		if g.Guarded() && m.bans[i].At <= m.latest {
			return false
		}
		for j := range g.Charges {
			c, f := &g.Charges[j], &m.found[at]
			at++
			if c.Meter.Kind != algorithm.KindLog {
				f.State, f.Passes, _ = c.Meter.Weigh(f.State, m.now, c.Need(), t.MaxDelay)
				f.Passes = f.Passes && !c.Meter.IsOver(f.State) // otherwise it would be reported as charged
			} else if !lacksOne(c, f.State) || m.latest >= f.State.FreeAt+penstock.Instant(c.Meter.Window) {
				return false
			}
		}
	}
	return true
}

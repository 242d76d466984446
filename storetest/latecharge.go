package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// chargeLate adds what still counts of a valid late charge, once.
func (l ledger) chargeLate(c *storage.LateCharge, now algorithm.Instant) {
	name := reservationKey{c.Subject, c.Nonce}
	l.tally.see("late charge again", l.late[name])
	if l.late[name] {
		return
	}
	l.late[name] = true
	for _, a := range c.Amounts {
		where := stateKey{c.Subject, a.Meter.Fingerprint}
		b := l.balances[where]
		l.seeLate(&a, b, now)
		if a.Meter.Kind == algorithm.KindLog {
			if entries := a.Meter.LateEntries(b.entries, a.Log, now); len(entries) > 0 {
				l.balances[where] = stateValue{entries: a.Meter.InsertLate(slices.Clone(b.entries), entries, now)}
			}
		} else if state, added := a.Meter.AddLate(b.state, a.State, now); added {
			l.balances[where] = stateValue{state: state}
		}
	}
}

// seeLate counts the result of a late amount.
func (l ledger) seeLate(a *storage.LateAmount, b stateValue, now algorithm.Instant) {
	if l.tally == nil {
		return
	}
	m := a.Meter
	most := m.Capacity + m.Overdraft
	var added, repaired bool
	var after algorithm.State
	if m.Kind == algorithm.KindLog {
		entries := m.LateEntries(b.entries, a.Log, now)
		added, repaired = len(entries) > 0, m.WeighLog(b.entries, now, 0).Repaired
		after = m.LogState(m.InsertLate(slices.Clone(b.entries), entries, now), now, 0, true)
		l.tally.see("late entry in between", added && len(b.entries) > 1 && entries[0].At < b.entries[len(b.entries)-1].At)
	} else {
		_, _, repaired = m.Weigh(b.state, now, 0, 0)
		after, added = m.AddLate(b.state, a.State, now)
	}
	used := m.Peek(after, now).Used
	l.tally.see("late charge", added)
	l.tally.see("late charge cut", added && used >= most)
	l.tally.see("late charge of which nothing counts", !added)
	l.tally.see("late charge to a state redated", added && repaired)
}

// lateAmount is what a node has admitted by itself under a meter: its own counter.
type lateAmount struct {
	meter *algorithm.Meter
	state algorithm.State
	log   []algorithm.Entry
}

// admit counts a request.
func (a *lateAmount) admit(now algorithm.Instant, cost int64) {
	m := a.meter
	if m.Kind == algorithm.KindLog {
		w := m.WeighLog(a.log, now, 0)
		w.Passes = true
		a.log = m.RecordLog(a.log, w, cost)
		return
	}
	a.state, _, _ = m.Weigh(a.state, now, 0, 0)
	a.state = m.Charge(a.state, cost)
}

func (a *lateAmount) amount() storage.LateAmount {
	return storage.LateAmount{Meter: a.meter, State: a.state, Log: a.log}
}

// lateStep charges the first subject of the cast late.
func lateStep(now algorithm.Instant, nonce uint64, amounts ...lateAmount) step {
	c := &storage.LateCharge{Now: now, Nonce: nonce}
	for i := range amounts {
		c.Amounts = append(c.Amounts, amounts[i].amount())
	}
	return step{late: c, who: []int{0}}
}

// late generates what a node admitted around now, or returns false if no limit can be charged late.
func (g *generator) late() (step, bool) {
	if again := g.rule.charged; again != nil && often(g.r, 20) { // the same again, or nearly
		c := *again.late
		c.Now = g.now
		if often(g.r, 30) {
			c.Nonce = g.r.Uint64() | 1
		}
		return step{late: &c, who: again.who, node: g.r.IntN(g.nodes)}, true
	}
	s := lateStep(g.now, g.r.Uint64()|1)
	s.who, s.node = []int{g.r.IntN(g.cast)}, g.r.IntN(g.nodes)
	for _, c := range g.charges() {
		if c.Meter.CanChargeLate() {
			a := lateAmount{meter: c.Meter}
			g.admitAll(&a)
			s.late.Amounts = append(s.late.Amounts, a.amount())
		}
	}
	return s, len(s.late.Amounts) > 0
}

// admitAll admits some requests, the last of them around now. They are in order, and sometimes dated by a
// clock that is ahead.
func (g *generator) admitAll(a *lateAmount) {
	m := a.meter
	requests, now := 1+g.r.Int64N(6), g.now
	if often(g.r, 3) {
		requests = algorithm.MaxLateEntries - 1 - g.r.Int64N(2)
	}
	switch g.r.IntN(8) {
	case 0:
		now += algorithm.Instant(g.r.Int64N(2*m.Window) + 1)
	case 1, 2, 3:
		now -= algorithm.Instant(g.r.Int64N(2 * m.Window))
	case 4:
		now -= algorithm.Instant(m.Window) + g.wobble()
	}
	step := g.r.Int64N(2*m.Window/requests + 1)
	now = min(max(now, g.from), latest)
	for k := requests - 1; k >= 0; k-- {
		if at := now - algorithm.Instant(k*step); at > 0 {
			a.admit(at, max(1, min(g.cost(m), m.Capacity)))
		}
	}
}

func describeLate(c *storage.LateCharge) string {
	var b strings.Builder
	fmt.Fprintf(&b, "charge late, nonce %d", c.Nonce)
	for _, a := range c.Amounts {
		fmt.Fprintf(&b, " [%v", a.Meter)
		if a.Meter.Kind == algorithm.KindLog {
			fmt.Fprintf(&b, " log %v]", a.Log)
		} else {
			fmt.Fprintf(&b, " state %v]", a.State)
		}
	}
	return b.String()
}

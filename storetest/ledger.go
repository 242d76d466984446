package storetest

import (
	"maps"
	"slices"

	"github.com/penstock-io/penstock"
)

// An account is what one state belongs to. Limits that differ in count, burst or queue alone share
// one, so that changing them keeps what was consumed.
type account struct {
	subject     penstock.Subject
	fingerprint uint64
}

// A record is what is kept of an account: a state, or the entries of a log or of leases. Records
// are never changed, only replaced, so ledgers may share them.
type record struct {
	state   penstock.State
	entries []penstock.Entry
}

// A ledger is the whole state of a store and says in sequence what a ticket does to it. It is what
// [Model] guards with a lock, and what the linearizability check steps through.
type ledger struct {
	records map[account]record
	tally   *tally // nil: nobody counts
}

func newLedger() ledger { return ledger{records: map[account]record{}} }

func (l ledger) clone() ledger { return ledger{records: maps.Clone(l.records), tally: l.tally} }

func (l ledger) equal(other ledger) bool {
	return maps.EqualFunc(l.records, other.records, func(a, b record) bool {
		return a.state == b.state && slices.Equal(a.entries, b.entries)
	})
}

// take decides a valid ticket: first the groups that stand or fall together, then those that are
// alone, one after the other, each seeing what was written before it.
func (l ledger) take(t *penstock.Ticket, now penstock.Instant, out *penstock.Outcome) {
	var all, together []*weighing
	var alone [][]*weighing
	for i := range t.Groups {
		g := &t.Groups[i]
		var group []*weighing
		for _, c := range g.Charges {
			group = append(group, &weighing{Charge: c, account: account{g.Subject, c.Meter.Fingerprint}, now: now, ticket: t})
		}
		all = append(all, group...)
		if g.Alone {
			alone = append(alone, group)
		} else {
			together = append(together, group...)
		}
	}
	l.decide(together)
	for _, group := range alone {
		l.decide(group)
	}
	var found []penstock.Found
	for _, w := range all {
		found = append(found, w.found)
	}
	out.Settle(t, now, found, nil)
}

// decide weighs charges that pass all or not at all before it writes any of them.
func (l ledger) decide(charges []*weighing) {
	pass := true
	for _, w := range charges {
		w.weigh(l.records[w.account])
		pass = pass && w.found.Passes
	}
	for _, w := range charges {
		after, write := w.conclude(pass)
		if write {
			l.records[w.account] = after
		}
		w.report(after)
		l.tally.add(w, write && !pass && w.Meter.CountDenied)
	}
}

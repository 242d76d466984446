package storetest

import (
	"maps"
	"slices"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A stateKey is what one state belongs to. Limits that differ only in count, burst or queue share one, so
// that changing them keeps what was consumed.
type stateKey struct {
	subject     storage.Subject
	fingerprint uint64
}

// A stateValue is the content of an account: a state, the entries of a log or of permits, or the state of a
// penalty. Balances are never changed, only replaced, so ledgers may share them.
type stateValue struct {
	state   algorithm.State
	entries []algorithm.Entry
	penalty algorithm.PenaltyState
}

// callKey identifies the record of an admitted request.
type callKey struct {
	subject storage.Subject
	call    storage.CallID
}

// reservationKey identifies a reservation.
type reservationKey struct {
	subject storage.Subject
	nonce   uint64
}

// A ledger is the whole state of a store. It defines, sequentially, what a ticket, a settlement, a ban or a
// late charge does to it. [Model] guards it with a lock, and the linearizability check steps through it.
type ledger struct {
	balances     map[stateKey]stateValue
	calls        map[callKey]algorithm.Record
	reservations map[reservationKey]storage.Reservation
	late         map[reservationKey]bool // late charges that have taken effect
	tally        *tally                  // nil: no counting
}

func newLedger() ledger {
	return ledger{
		balances:     map[stateKey]stateValue{},
		calls:        map[callKey]algorithm.Record{},
		reservations: map[reservationKey]storage.Reservation{},
		late:         map[reservationKey]bool{},
	}
}

func (l ledger) clone() ledger {
	return ledger{maps.Clone(l.balances), maps.Clone(l.calls), maps.Clone(l.reservations), maps.Clone(l.late), l.tally}
}

func (l ledger) equal(other ledger) bool {
	return maps.EqualFunc(l.balances, other.balances, func(a, b stateValue) bool {
		return a.state == b.state && a.penalty == b.penalty && slices.Equal(a.entries, b.entries)
	}) && maps.Equal(l.calls, other.calls) && maps.EqualFunc(l.reservations, other.reservations, sameReservation) &&
		maps.Equal(l.late, other.late)
}

func sameReservation(a, b storage.Reservation) bool {
	return a.Nonce == b.Nonce && a.Until == b.Until && a.Closed == b.Closed && slices.Equal(a.Receipts, b.Receipts)
}

// take decides a valid ticket: first the groups that are decided together, then the independent ones, one
// after the other, each seeing what was written before it.
func (l ledger) take(t *storage.Ticket, now algorithm.Instant, out *storage.Outcome) {
	var all, together []*groupDecision
	for i := range t.Groups {
		h := newGroupDecision(t, &t.Groups[i], now)
		all = append(all, h)
		if !h.Alone {
			together = append(together, h)
		}
	}
	l.decide(together, t.Denied)
	for _, h := range all {
		if h.Alone {
			l.decide([]*groupDecision{h}, false)
		}
	}
	var found []storage.ChargeResult
	var sights []storage.GuardResult
	guarded := false
	for _, h := range all {
		found = append(found, h.found()...)
		sights = append(sights, h.sight)
		guarded = guarded || h.Guarded()
	}
	if !guarded {
		sights = nil
	}
	out.Settle(t, now, found, sights)
	l.remember(t, all, out)
}

// decide hears groups that pass all or none before it writes any of them. They may have been denied
// elsewhere.
func (l ledger) decide(groups []*groupDecision, denied bool) {
	pass := !denied
	for _, h := range groups {
		h.hear(l)
		pass = pass && h.passes()
	}
	for _, h := range groups {
		h.conclude(l, pass)
	}
}

// remember keeps what can be repeated, settled or released according to the outcome.
func (l ledger) remember(t *storage.Ticket, all []*groupDecision, out *storage.Outcome) {
	decisions := out.Decisions
	for i, h := range all {
		mine := decisions[:len(h.Charges)]
		decisions = decisions[len(h.Charges):]
		if !out.Groups[i].Taken || h.sight.Replay || !h.Spends() {
			continue
		}
		record := algorithm.Record{First: h.now, Nonce: out.Groups[i].Nonce}
		reservation := storage.Reservation{Nonce: t.Nonce, Until: h.now.Add(h.Reserve)}
		for j, c := range h.Charges {
			if c.Cost == 0 {
				continue
			}
			if c.Meter.Kind == algorithm.KindLeaky {
				record.Departs = max(record.Departs, h.now.Add(mine[j].Delay))
			}
			reservation.Receipts = append(reservation.Receipts, mine[j].Receipt)
		}
		if h.Remembers() {
			l.calls[callKey{h.Subject, h.Call}] = record
		}
		if h.Reserve != 0 {
			l.reservations[reservationKey{h.Subject, t.Nonce}] = reservation
		}
	}
}
